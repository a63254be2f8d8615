"""The languages of the generated web: real function words for the head of the distribution, made-up words for the tail.

The most frequent words are real, so that language detectors see what they expect; the rest is put together from the
script's own syllables, so that no text is quoted from anywhere. In scripts without spaces a token is a character
(Chinese) or a short word written without a space after it (Japanese, Thai).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dustream.streams.generate.draws import Draws

VOCABULARY_WORDS_MAX = 12_000
"""Five written forms of each word must be numbered with 16 bits."""


@dataclass(frozen=True)
class Language:
    """How words are made and written. `marks` are comma, full stop; `charsets` the legacy encodings of the script."""

    code: str
    weight: int
    common: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]
    parts_max: int
    space: str
    comma: str
    stop: str
    charsets: tuple[str, ...]


def _split(words: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words.split()))


_ENGLISH = _split("""
the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one
you were all her she there would their we him been has when who will no more if out so up said what its about than
into them can only other time new some could these two may first then do any like my now over such our man me even
most made after also did many off before must well back through years much where your way down should because long
each just state those people too how little good world make very year still see work life being here under against
""")
_GERMAN = _split("""
der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat dass sie
nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis mehr durch man sein
wurde sei hatte kann gegen vom können schon wenn habe seine ihre dann unter wir soll ich eines jahr zwei jahren diese
dieser wieder keine seiner worden will zwischen immer millionen was sagte gibt alle seit muss doch jetzt drei neue
damit bereits da ab ohne sondern selbst ersten nun etwa heute ihm weil ihr würde größer stärker früh
""")
_SPANISH = _split("""
de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le ha me si sin sobre este ya
entre cuando todo esta ser son dos también fue había era muy años hasta desde está mi porque qué sólo han yo hay vez
puede todos así nos ni parte tiene él uno donde bien tiempo mismo ese ahora cada vida otro después te otros aunque esa
eso hace otra gobierno tan durante siempre día tanto ella tres sí dijo sido gran país según menos mundo año antes
""")
_RUSSIAN = _split("""
и в не на я быть он с что а по это она этот к но они мы весь который из у то за свой ещё о год от так для ты же все тот
мочь вы человек такой его сказать только или бы себя один как уже до время если сам когда другой вот говорить наш мой
знать стать при чтобы дело жизнь кто первый очень два день её новый рука даже во со раз где там под можно ну какой после
их работа без самый потом надо хотеть ли слово идти большой должен место иметь ничто
""")
_ARABIC = _split("""
في من على إلى أن عن هذا التي الذي مع كان هذه ما لا بعد قد بين كل ذلك أو كما لم إن قبل حتى عند أي هو هي وقد ثم لكن غير
خلال يوم منذ أكثر حول حيث كانت عام قال هناك بعض تم أنه ولا اليوم الى له بها فيها عليه جديد العالم الدولة الناس وقت أمام
تحت فوق أول كبير مدينة عمل سنة دون نحو ضد سوف يكون تكون لها لهم بن نفس حالة شركة تقرير بيان شكل مجلس رئيس حكومة
""")
_THAI = _split("""
ที่ และ ใน การ มี ของ เป็น ได้ ไม่ ว่า จะ ให้ ไป มา กับ นี้ คน แต่ ก็ จาก หรือ อยู่ โดย เพื่อ ความ ต้อง ซึ่ง นั้น ทำ แล้ว
ถึง กัน ผู้ อย่าง ปี วัน เมื่อ ทั้ง กว่า ยัง เขา มาก ใช้ อีก ด้วย หลาย งาน ใหม่ เรา ขึ้น เข้า ออก ประเทศ ไทย เมือง บ้าน
น้ำ รัฐ ข่าว เรื่อง ระบบ ตาม สามารถ ต่อ ระหว่าง ก่อน หลัง ดี เพราะ ถ้า นำ พบ เห็น รู้ คิด พูด เดิน เวลา โลก ชีวิต
""")
_JAPANESE = _split("""
の に は を た が で て と し れ さ ある いる も する から な こと として い や れる など なっ ない この ため
その あっ よう また もの という あり まで られ なる へ か だ これ によって により おり より による ず なり
られる において ば なかっ なく しかし について せ だっ その後 できる それ う ので なお のみ でき き つ における
および いう さらに でも ら たり
""")
_CHINESE = tuple(
    dict.fromkeys(
        "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里"
        "用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实"
        "日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政"
        "美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员"
        "解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件"
        "计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象"
        "完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运笔石热林根"
        "联济影响字组织收风技每义火片始选标商集包夜研究站般石满布武快城失参算细低单连双转语史球华图省议服务周"
        "江河湖岛村镇县州街桥楼房屋车船飞票钱店药医病护校课班师友爱父母亲孩童少青春夏秋冬早晚午星期节庆旅游景"
        "食饭菜茶酒肉鱼米油盐糖衣帽鞋布丝红黄蓝绿黑灰紫香苦甜辣冷暖干湿轻软硬粗厚薄深浅宽窄远近左右内中央"
    )
)

_LATIN_ONSETS = _split("b br c ch cl d dr f fl g gr h j k l m n p pl pr qu r s sc sh sl sp st t th tr v w")
_LATIN_RIMES = _split("a al an ar e el en er ess i il in ing ion is o ol on or ous u um un ure y ate ist ent able ive")
_GERMAN_ONSETS = _split("b bl d dr f fr g gl h k kl kr l m n pf r s sch schl st str t v w z zw")
_GERMAN_RIMES = _split("ab ach all and au ei eich eln en er erung eß ieb icht ig in ohr öl og ung und ün ur ät än ust")
_SPANISH_ONSETS = _split("b br c cr d f fr g gr h j l ll m n ñ p pl pr r s t tr v z")
_SPANISH_RIMES = _split("a ad al ancia ar ción e ente er és í ia ía ico ido iento o or oso ra ro ta to u ura")
_RUSSIAN_ONSETS = _split("б в вр г гр д ж з к кр л м н п пр р с ск ст т тр ф х ц ч ш")
_RUSSIAN_RIMES = _split("а ак ал ан ание ать е ек ен ение еть и ик ил ина ист ия ность о ов ок ом ор ость у ый я ять")
_ARABIC_ONSETS = _split("ال م ت ي ن است مت وال بال")
_ARABIC_RIMES = _split("""
كتب علم درس حمل سمع نظر فتح رسم شرب قطع حكم صنع جمع رفع دخل خرج طلب شرح بحث نشر سكن عرض ضرب ربط
""")
_ARABIC_ENDS = _split("ة ات ون ين ي ه ها ا ية")
_THAI_PARTS = _split(
    "กา ขา คน งา จา ชา ดี ตา ทา นา บา ปา พา มา ยา รา ลา วา สา หา อา กิน ขาย คิด จีน ชม ดูแล ตลาด ทาง นก บิน "
    "ปลา พลัง มือ ยาว ราคา ลม วัด สวน หมู่ อ่าน กล้า ครู จริง ช่วย ดาว ต้น ท่า นอก บริษัท ปฏิบัติ พิเศษ"
)
_KANJI = tuple(
    "日本年大国人会社学生時間新聞電車山川海空天気東京都市町村田中小高校先発表政治経済文化研究開始"
    "世界歴史自然科技術情報産業地方交通安全教育医療生活食料音楽映画写真運動選手試合監督法律議員"
)
_KATAKANA = _split("""
ア イベント エネルギー カメラ キロ グループ ケース サービス システム スポーツ セット データ テレビ トップ
ニュース ネット バス ビル プロ ページ ホテル マネー メンバー モデル ユーザー ライン ルール レベル
""")

LANGUAGES: tuple[Language, ...] = (
    Language("en", 42, _ENGLISH, (_LATIN_ONSETS, _LATIN_RIMES), 3, " ", ",", ".", ("windows-1252",)),
    Language("de", 12, _GERMAN, (_GERMAN_ONSETS, _GERMAN_RIMES), 3, " ", ",", ".", ("iso-8859-1", "windows-1252")),
    Language("zh", 16, _CHINESE[:120], (_CHINESE,), 1, "", "，", "。", ("gbk", "gb18030")),
    Language("es", 8, _SPANISH, (_SPANISH_ONSETS, _SPANISH_RIMES), 3, " ", ",", ".", ("iso-8859-1",)),
    Language("ru", 8, _RUSSIAN, (_RUSSIAN_ONSETS, _RUSSIAN_RIMES), 3, " ", ",", ".", ("windows-1251", "koi8-r")),
    Language("ja", 6, _JAPANESE, (_KANJI, (*_KANJI, *_KATAKANA)), 1, "", "、", "。", ("shift_jis", "euc-jp")),
    Language("th", 4, _THAI, (_THAI_PARTS, _THAI_PARTS), 2, "", " ", " ", ("windows-874",)),
    Language("ar", 4, _ARABIC, (_ARABIC_ONSETS, _ARABIC_RIMES, _ARABIC_ENDS), 1, " ", "،", ".", ("windows-1256",)),
)
LANGUAGE_BY_CODE = {language.code: language for language in LANGUAGES}


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words of a language, and each in five written forms: code = form · size + word."""

    words: tuple[str, ...]
    common_count: int
    forms: NDArray[np.object_]

    @property
    def size(self) -> int:
        return len(self.words)


FORM_PLAIN, FORM_SENTENCE_START, FORM_COMMA, FORM_SENTENCE_END, FORM_PARAGRAPH_END = range(5)


@cache
def vocabulary(code: str) -> Vocabulary:
    """The vocabulary of a language: its common words first, then made-up ones, the same for every seed."""
    language = LANGUAGE_BY_CODE[code]
    words = tuple(dict.fromkeys((*language.common, *_made_up_words(language))))[:VOCABULARY_WORDS_MAX]
    after_stop = language.stop + language.space
    forms = (
        *(word + language.space for word in words),
        *(word[:1].upper() + word[1:] + language.space for word in words),
        *(word + language.comma + language.space for word in words),
        *(word + after_stop for word in words),
        *(word + language.stop + "</p>\n<p>" for word in words),
    )
    return Vocabulary(words, len(language.common), np.array(forms, dtype=object))


def _made_up_words(language: Language) -> list[str]:
    """Words of one to `parts_max` syllables; a syllable takes one piece from each of the language's part lists."""
    draws = Draws("vocabulary", language.code)
    size = VOCABULARY_WORDS_MAX
    syllables = [_syllables(language, draws, size) for _ in range(language.parts_max)]
    counts = draws.array_below(language.parts_max, size) + 1
    return ["".join(pieces[i] for pieces in syllables[:count]) for i, count in enumerate(counts.tolist())]


def _syllables(language: Language, draws: Draws, size: int) -> list[str]:
    columns = [np.array(parts, dtype=object)[draws.array_below(len(parts), size)] for parts in language.parts]
    return ["".join(row) for row in zip(*columns, strict=True)]
