"""The most frequent function words of languages that share a script; even short texts contain many of them.

No two of the lists are alike, but many share words ("de", "en", "la"): a text's language is the one whose list it hits
most often (`language.language_of_tokens`).
"""

from __future__ import annotations

FUNCTION_WORDS = {
    "en": "the of and to in is you that it for on with as are this be at or have from by not but what all can if "
    "your will an we when which their there has more was they been would about its into these than other use",
    "de": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus "
    "er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum oder haben nur kann wir "
    "ihre",
    "fr": "de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il sont avec ou "
    "son aux cette vous nous mais leur fait été ces être peut tous elle comme sans deux même votre",
    "es": "de la que el en y a los del se las por un para con no una su al lo como más o pero sus le ha me si sin "
    "sobre este ya entre cuando todo esta ser son dos también fue había era muy hasta desde está nos puede",
    "it": "di che e la il un a per in una è non sono con si da come le dei nel alla del più della gli o al i ha "
    "anche questo lo delle ma se dal tutti degli nella essere alle ai può su cui sul loro suo stato",
    "pt": "de a o que e do da em um para com não uma os no se na por mais as dos como mas ao ele das à seu sua ou "
    "quando muito nos já eu também só pelo pela até isso ela entre depois sem mesmo aos seus são você foi "
    "está",
    "nl": "de van het een en in is dat op te zijn met voor niet aan er die om ook als dan maar bij door je uit "
    "wordt naar heeft hij nog worden over deze kan wat we meer of zo dit wij hebben geen u onze tot",
    "sv": "och i att det som en på är av för med den till inte har de ett om var jag men från så kan när vi du man "
    "eller ska också efter vid där nu mer sig här bara hur alla mycket skulle finns dig",
    "da": "og i at det er en til på som af for med den de ikke har et der jeg om var vi kan så men fra du ved sig "
    "også eller hvad skal blev efter når nu mere hvor her kun være ud alle mig blive deres",
    "no": "og i det er på en til som av for med at den har de ikke et jeg om var vi kan så men fra du seg også "
    "eller hva skal ble etter når nå mer hvor her bare være ut alle meg bli deres mye noe hun",
    "fi": "ja on ei se että oli hän ovat mutta myös kun tai niin joka sen mukaan kuin ole vain jos sekä jo voi nyt "
    "olla tämä ollut hänen sitten kanssa mitä ne siitä näin minä tämän ennen vielä kaikki sitä",
    "pl": "w i na z do się nie to jest że o od po za jak przez dla a oraz ale tym są tego lub co ze ma może być "
    "które który tak było jego już także pod przy ich był czy tylko jako została bardzo",
    "cs": "a se v na je že s z do o to i ve pro k za by ale jako po jsou od při které nebo byl také jeho jen tak "
    "podle až roku má ze jsme však který pod byla bylo před není být když může vám",
    "sk": "a sa v na je že s z do o to aj vo pre k za by ale ako po sú od pri ktoré alebo bol tiež jeho len tak "
    "podľa až roku má zo sme však ktorý pod bola bolo pred nie byť keď môže vám ktorá",
    "hu": "a az és hogy nem is egy van meg volt ez csak de már el még mint azt ki be kell ha vagy lehet sem ezt "
    "lesz után majd minden más akkor amely voltak nagyon úgy le fel itt több én ő pedig",
    "ro": "de și în a la cu pe că nu o este din pentru un mai care ca sau au se fi după lui fost prin ce sunt dar "
    "îi ale al unei acest această cum îl ei când avea acum foarte până fără",
    "tr": "ve bir bu da de için ile olarak daha çok olan en gibi ne o kadar sonra var ama değil her ise ya mi yok "
    "ben olduğu tarafından ki ancak göre olduğunu iki şey diye veya bunu biz nasıl şekilde",
    "vi": "và của là có các cho trong được với không một người những đã này để khi từ đến ra về như vào cũng tại "
    "nhiều trên năm thì sẽ phải bị nhưng còn rất hay theo hơn đó bạn làm việc",
    "id": "yang dan di dengan untuk dari ini pada tidak dalam itu adalah ke akan juga atau oleh ada saya bisa sudah "
    "anda karena lebih sebagai dapat telah mereka kami kita seperti hanya tersebut tahun harus",
    "hr": "i u je se na da su za od s o a koji ne to kao iz bi što ali do po samo sve ili nije nakon koja bio kako "
    "još prema sam biti koje zbog smo te ako pri između dok već vrlo bila",
    "ru": "и в не на что с по как это он из к у за от о для же но а так его все или был бы только при то мы быть "
    "есть они также уже если было когда может чтобы до ее их этого еще вы более",
    "uk": "і в не на що з та як це у до за від для є його або але він так про по був які також вже бути якщо при "
    "може коли було щоб ще їх цього ми вони більше має через якій під",
    "bg": "и на в за от се да с не е по са че като до той при това към а но или след има със което които също който "
    "бе само тя ще беше във между още те един може тази през",
    "ar": "في من على إلى أن عن مع التي هذا لا هذه كان ما الذي بين كل بعد ذلك أو هو قد لم كما خلال حيث عام هي غير له "
    "لها منذ حتى كانت ولا قبل وقد",
    "fa": "و در به از که این را با است برای آن یک خود تا بر هم نیز شده شد می باید کرد ها یا بود اما هر وی دارد های "
    "شود کند دو ما کرده",
}
