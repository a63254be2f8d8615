"""The trees of the model of main text. Written by bench/train_main_text.py: learned, not edited.

Learned with lightgbm 4.7.0, seed 17, 240 trees of 3 levels, from pages: 93 of E_articles_with_truth, 1635 of
C_pages_multisite, 900 of generated, 245 of A_networkx_doc, 219 of A_kafka_site, 249 of A_dolphinscheduler_zh_en, 180
of B_recrawl_flink, 506 of F_segments_to_keep_and_leave. Each question is a feature and a threshold, in the order
root, its two children, their four; each answer a number of 1 / SCALE logits, those below a question that is answered
with no first. Each word has two weights, in eighths of a logit: on the containers next to a block, and on those
further up.
"""

SCALE = 64
FEATURE_NAMES = (
    "length", "link_share", "kind", "last_char", "first_char", "sentence_ends", "digits", "capitals", "spaces",
    "from_start", "from_end", "bytes_before", "paragraph_behind", "heading_before", "heading_level", "top_heading",
    "down", "up", "depth", "page_bytes", "page_blocks", "page_links", "page_prose", "page_paragraphs", "c0_links",
    "c0_block_bytes", "c1_links", "c1_of_page", "c1_of_page_prose", "c1_block_bytes", "c2_links", "c2_of_page",
    "c2_of_page_prose", "c2_block_bytes", "c3_links", "c3_of_page", "words_near", "words_far", "words", "w3_bytes",
    "w3_links", "w3_prose", "w7_bytes", "w7_links", "w7_prose", "n-2_link_share", "n-1_link_share", "n1_link_share",
    "n2_link_share", "n-2_kind", "n-1_kind", "n1_kind", "n2_kind", "path_boilerplate", "path_footer",
    "path_navigation", "path_aside", "path_article", "path_main", "path_comment", "path_byline", "path_related",
    "path_caption", "path_form", "path_list", "path_share", "path_advert", "path_section", "path_quote",
    "path_concealed", "path_header", "path_notice", "path_consent", "in_table", "in_list_item", "in_description",
    "in_cell", "in_preformatted",
)  # fmt: skip
QUESTIONS = """
1a0410001a0a0207251125141000
1a06240d2416190f0f0e240f1318
240e29132e0f4b00080a35002511
10001a041a091201251025112519
1000240d261129130d0d190d1317
1e04020704011f00251035001e09
10000f0e240f0d09240b27142b09
200004011b00250a490025121b0f
0106240e2518271435001704240f
26111c010f0e1e062714080e0b0d
300f1b0027134c000e000700080c
2802020704013b00251435002808
280235000401190c000035002806
10001e0f1e090207070016030401
261129131317240d010335001103
180610011704020725120f0d4900
240e1d0d2f0f14050a0a0b0c2611
10000f0e3700210d060b0b0a1c01
261110001f0001031e073e001102
2611000f3d002608120323010500
0f0e05031b004400000049003500
26111e0110020303040140004900
240f28000f0e3a00240a19101b00
01063f00070030071c0817052713
1804360017040207291421071d0d
240b19102f0f131009103800150a
240e1d0e0b0b1a000b0a0e00261b
0f0e39000b0a0f0d1d0f3b001001
2410240a0b0b170b0b0c0105230d
3500240b1416131d0b091a041d07
2611210813171f07020726131001
1f014b001f0f251a030701041406
240f28000f0e000d130f2c161317
2e0f000e100217051b0f150a0504
35001f001416280212010f000f1d
2d050b0804010a0e040110033201
240a2c140f0e070b070919103500
3005240b160329163f0038000b09
000f13170a0a230e030327131800
350038000f000f0e2c13250c251d
2605080d350000090910060b4600
38003600080d37003200070b2a14
0b0b240a25121d0c380024174a00
0f0d000e0b082500280004014b00
0f0d29140b0a29130000240a1604
350038000a10120320092418240d
35000f0e0916120f0f15251d2506
26070801020702010b083b002617
43001f0417042618060b1f0e2b08
04013c00000d0f0d26122a152802
360038002714410027133d004300
430039001317261101021e0f010a
0f0e191002072e0000000f154a00
360004011910250a000d07100000
0b090f0e15083a00030325120e02
0207020413171802131d11023308
04013c0018020b0d22020b08261c
0f0e29140f151f040f063e004900
0b0b0f0b4a000010020714132107
060838000303360039000619250b
120232011317131813113800080e
3a00241023001405230c40002a1a
261b0207120b3b00131747000b0d
3a0039001704150a3d000e010010
0503410018080f0e040721093301
04013c0002071b0f2e0330062618
36003f003d004b00210d29151411
3b002f063105020702002a120e02
0c1b0d15261a3b0002020d1b1004
4100120129163900170512060000
380016043900210e000e170b1800
001017031e013a000c0c0c081b0d
160438002a1a23042a161e01230e
1d181405000000001b0f00000000
3e000f0d0f0f250035002d0f0603
3d003500241c2c10460007120000
04012c13291d0b0d1e001f050000
43000e021317140539001f0e1502
191c3e0000004300190d00000000
020702042c11270d040224111910
0b0621074b0026120a0e10022b06
16031f080b070d151c092a1a0d0e
0503261b250b2d021c0f1f002609
0b0b0f0e34073a002a1e3c002716
4100120529143a00230d04072304
0c1b060815013f00000c26022617
00152f06000043002a1300000000
00113f001a061f0e0f1e27140000
47004d001d0e0e0200000f1e160b
1405000012010000000000093600
3600060810002e0b020730060913
13181203000e3900240b24122b04
470035001500160409161b07190a
45000503170d0303120124040000
2d05180016071e0629123800070a
261b2a1a2e0f0e0215001e0b0010
2c100f0b2a1a0802380010000704
45000f0b250a09100f152b000601
41000207260c02043c000b0e2715
140632071b0f0000000004011e00
080e210d12033f00300424101101
31043b000f0e24122a1226100b09
45003c002413040126162404190c
0e02160715052a14291533074a00
4a000b050d0b190f251e2713070a
261d000e23002a152a1502044700
00092a15060b1e0a1608001d1204
4b000200270e0d07140721062604
3b00400032030c0421070e010e02
1d182d0700004700220500000000
41004200160c3d000a0f27152715
3b000708070a080e2c140e010000
2c121003180045002b050b050c1b
0e02251725150011090b25132f0f
02073b00131602042501230e190f
1b082a16320310023c0018001101
140500001201000000002a150303
1d0732042b0d43000702001d1003
2c101f0330052b05200c0303120e
12031b06131602011b0e0f0d230c
290f0501120910040104251e2513
3e000c0d120e3302210e0203210d
360014060f130000090e240b0e01
45004d000013271a000043000000
150209122c1010001e013800010a
3f001407261009041f0f11010802
4400110c2517110b261708070000
3a0039000e002410090c240f2411
3d00250324000f1d21071f000f13
4d003500251713170f000000251c
131e0201260226072e0b22022606
40001b011e0f490018071e0e4300
440035000d090b0e3c0000001500
4100290f23041d081803190f3900
2a19120115001406000f1d0d230b
0b0e2c194a000401090c03052107
02001d1214053401000000001f0f
44000a0e040243003402170c210e
28000100290e1b08131b00094700
05033500090a410009161a003307
0608110a12052412270b0b0b1000
29101f0332010e001a0f06020708
3f00210c210d00113d000700210f
3c00230415061d0f12041e002913
3e0036001005001032003301210c
091047001b0603041c0603031b0d
1e00160a3c003108300a131d2a15
4d00291a0000080e000000000000
0c03010216073e0020090c0d160a
4100230f2913000a140615072304
1208261b15022b0d090a2404090c
1c0f0b072412000e4a0002072415
200e110c4a00070308113c001410
3c003e0005010c0d0c0615060607
25071d103d0016030c0b38002404
261d27100b0b3f0026121f0a2714
33073b004a0033042501070a1318
070506070707030003030a042912
420017092c160e02240c240b1f0b
2d0615020f161f090d090f0e2208
03043a00210d370013180a0e0307
390005032614261d3a0026000b05
12091f05290c27151e0e17030911
131a2201160b1e0d040124141c03
090e0503230e3d0012013d002f0f
0b06190c290e2a142a1a02012e05
0201261400151d10241527180000
3a00120517052f0f230c120d2800
4200211026092502150022002616
1d10071234033b00190e26041d13
45000b0e00122c194a00260a0000
2d05000f1e012a151e060f160e00
291010033900380026020a0e2616
2e05240e2f001410230012091f08
4a001e0e2611320307061b000402
0f1d230c0d1b2a150c10240c0c10
3307020731041209270f27160208
03032a1528002404091025013402
200d1b044a00420026031601000a
33022612340715012b0115021705
3e0027173c0038001a02190f260f
150229172416100034052612190d
14122107081426131a0f26061501
3700170f3a004400210f26061414
27170e021d0d2a1839000000271a
0b070d08070609050f181b04131b
080e210d131827160205260f0e01
090b19102a15120229133307251e
12094400291231042000131b250e
3b002c190f1e1708250c11073305
0f1204020a0b3a00241125014400
1b04230f0011210c261432031b0d
140500000a0300000000070b1413
0a0b190c2a1a1d092d0b0a0c0f16
36000a0a0a0c0e020b0e180f3404
00092c13120106011606160c1607
10003b001316230b0a0d25102714
2503260d3c00140c0000260a1002
030043001104280020001412110c
26050f1e3d0001042f000b0e0f13
0014100511030a0f320100000000
1502160b2c1526021c0626012611
2917410007041f0e170c291a0e02
0c092401160c1b013d00210f1000
2a1a3f00150333020f1e001d0000
070d25034300160d14070501190c
1d072612290f02030204260b1212
170824100500210f170525171709
4100330729142913310803011502
27172c1727191c0f190f240b1c0e
14060e001200000000000e001501
0a0f3f002f001411210e1f070f17
060836000f1531020f13060a060b
1005100027110713150020014700
0b08030331000a0a320113153107
4b001607160b1c0e1c0d28090000
1f044300251e1708300c11021c0f
091036000303000e0c053207260b
36001c0d24072d0a03021e0d3208
091025060c063b0007121b0b210b
0f180808080b3c00010617001708
42000c09000f01021604210b2715
0207020432040f1819050d023103
070b210b2504230f2e0b190c0c0b
050306031201090d03030000090b
261d14051b0a00001b0f300f0d02
35000a1225130913271246004600
131a2200230d071424000a0a3407
2402180f2404200e0a090f193304
0c1b490010021005131d250c2513
1b0808122615260c2c171e01070a
02000f1844003302140f14053e00
2c174b000c06000b2c0003012611
120917051609081340001709240e
21070b02160726120701120c2801
0808210c010a3f00240d01082e0d
0201251319101f001f09210d210c
0d0b1a0f190a2f0e120b21071e00
4100190a0b04131628001c0b1907
24161413170719102712010a190b
"""
ANSWERS = """
0b02fa06f909f8f4
f604f708f5f80cf8
f607f90707f4f805
ff08f907fa05f6ff
f90308fdf7fd0a01
ff07fb0407f7fbf7
04f7fb07f8fd01f8
f707f901fd0606fa
f90206f6fbf8f808
fcf8fe07f80107ff
fd06fd06fef9fa04
05f6fc0507f8fcf9
0105f7f706f8fcf9
06fe06f905fcfdf9
f9fd04f608f90500
05fefc04f801f9ff
0ff9fb0405fefb02
f80204f601faf9fd
03fbfdf901f30508
fafdfc050106fbf1
f9040f0ffd0504f8
fd0302fa0407ff07
fd02f9fcf9040005
03fef80305fafbf6
03fef8fffb04fbf6
08fafe0c03fdfc02
fdfa04fcfc04fd05
f9fcfd0903fafffb
fb0100fb05fffd04
fb0603fff8f906fc
fa0101fc030704ff
fc0409fc03ff08fa
fc0213fbf9040500
03fe04f9fd08fa07
00fcfb02fdf9fc06
040003fe06fd02fc
fa02fff7fa0502f9
fc0702fa03fafefb
05fefc00fa020601
fb02fafe04fcf900
f9fcfe0601f7f9fc
01fc07fafa03fa02
fb0002fcfcf6ff05
fdf904fa0601fe07
faf50404fe0201fd
fe02fa01f9fffb00
fb050400fa0009ff
00f900fb02f5fc05
fd0401f508fc02fa
fa05fdeffffb03fc
01f8fb00f901fc04
fd0202fc051202fb
fdfa04040500fd04
fa04fe02f9010202
fa010003fd0105fb
01fe06fffc06fafe
05fef40002fefc06
fafd08fe04fb0004
fa0302fffc07fb03
01fbfa00f603ff06
070306fb04fafe02
09fdff04fc0102f1
01f900fc06fc03f7
fe0402f70a03ff05
fc00fbe900061606
04faf60201fefc03
0007fa02fa01ff06
02ff0bfe01f602fb
01fc06fcfc030601
fb080300fcf40404
03fbfe02fa0903fb
010700fd05ff00f6
0104fa0500fee502
090900f9e0e0e0e0
01fa00fafe0bf901
0200fafefc0fe6e6
05fe01f9ff01e5e5
0800fc0006fd04fe
0002f9ffe9e9e9e9
fb0006ffff04fb02
fb0203fffffc07fd
02fb07ff01f3fe06
00fe04edfd010f06
fc0201ee00fbfc04
fd020004f9ebfc04
01fbf7011200fc04
000200fc08080808
00fdfa01fe05f1f1
01ff0606f70207f9
0808080801fa01fc
01fffef602fafa08
fe08fe04fffb01f9
0200fb09f303fa01
ff01fe07fff60202
02fb01fa01fafc02
00fe04ee06fd02e2
faff02fd00fe01ed
fb04030001fcf7ff
0005fff9fd0af003
060609090300fef8
01fbfef9fb040501
01fd02f7faff0300
0300fff6fff7fc05
03ffff0301fdf9ff
0004fef205fffb0d
00fcfe03fc0506fd
00fdf5fd01f0f800
fc080500fc02fe08
00fefd0303f701fb
01fdfe01f2f2f2f2
00fdfdf5f70409fe
000200fb03fa0a0a
02f700fc02fefb06
000404f7fef50500
000406f807fdfc01
01fefefa0500fe06
08080808fb02ff01
fa02ff0500f307fd
02fe0501ff01fd09
03fb06fdfc05ff02
01fd0209ffee02fd
ff01fffafef8fc0d
0808000200f303fb
00f60606f8fe0101
02ff031602fbfffa
070100fd01f9fc04
0009f9020208f9f9
fd0106ff0c0202ff
fb05fe01140505f9
01ff06fa0606fe02
0a0200fe0121fa03
fe0201fc0209fc04
00fdfbff0808fe02
ff0200fcfaeefa03
06fb0002fb05eafa
0200fff5fa04fc06
ff08fbfb070700fc
0002f8ff0800fe01
0004fff7ff02fe05
00fbfb09020903ff
01ff01fbf9fd05fb
fb00010604fcfffc
01f900f901f905ff
ff04000202fdfef2
00020bfc04fafe0b
00fefa04ff07f407
010401fc000600f9
0001f8f805050505
02fd02fa02fefcff
ff0104fef701fc04
ff03ff060d0302fd
0003ff0203fbe900
0001fafffffa07ff
01fffa0201faf703
f9fe05fa01fd07fb
01fb00fd060103f5
000405f9fff907ff
fa00f901fc0402ff
01fe060100f904ff
0003ff03fe03fc02
00fb040001fbf801
ff030208ff0202fa
fffa000703fe020a
010c03ff01fcfb00
00fcfe07000608ff
01fd03f8fb01fffb
04faf50000f90606
fffcff0604fb02ff
fe0104fc04fcf903
00fdf603fe06fe06
00fbfa03fef70101
01fe02f700fbfd01
02fd03fefffa01fd
0106fe01fc02ff03
00fe021301fd05fc
00fd01fd0602fd03
000303fcfdf6fe02
0500fdf6fd02fc00
00fcfe0405fefd07
fb01f5fe020001fe
00fe06fff904ff0b
020001f300fd0005
fd030003f80102f3
0005fef0fdf905f6
01fdfe01fbfb0701
fa0201fdff01fffa
01f8fff9fc010401
fe01ff0601fefef0
ff000107fe020500
0001f200fa03fd08
0104fa02fd01ff06
00fefb0402ff0700
06060606fc0c0003
000300fcfd00e703
02ff000afa0104fd
00fcf7fefb030200
000201f80006fe02
09fef4f40300fe03
f3fcfe0500fd01fb
fd010dfc01fd05fa
00fd0b0107070101
0802fe03fd0000f9
00fffb0904fdf504
fa0201fdfff909fe
ff01fa0301f9ecec
fd0c0500f804fe04
01fcfe0403000007
fffb040000f90500
01fffe01fff80004
00fefa020006fd04
07070303fef9ff00
0003fb0301fb01f9
0200f400f3fd04fd
01f7fcfffd0509fa
03fe060100f700fd
01feff0106fdfcfc
fe0003fe000400ec
0001faff01f80900
01fffc01fe0bfdf7
fff800fb06f801fa
00fb02fbf901fb00
01fe01fdfb02f503
01fffe05fffafb02
01fe00fd030b02fb
0001fd02fefe0801
060600fb0600f604
00050009fbfe03ff
03f608fffaff03fe
fb020efe010e0001
000203fb04fefa01
01fffff003fffff0
000700fb060006fc
ff010007fa01f303
01fbfe01fe030a03
fafffe0202fd01fe
00fb01fc010cf802
000500f800fef903
00fe05fdfd0201f8
01fe02fffd0401fa
00fdfe070600fd02
"""
WORDS = """
10 2 -2  100 0 2  11 0 -2  113 0 2  14 0 -5  187 0 -4  19 0 -3  1st 0 2  1tier 5 0  20 3 0  21 0 5  23 2 0  24 0 -2
240 0 2  2xl 0 -2  300 0 -2  37 0 2  40 0 2  50 -2 0  __layout 0 2  __nuxt 0 2  about -4 0  above 2 0  access 5 -2
accordion -3 2  actions -2 0  active 2 -2  address 2 0  ads -3 0  advanced 2 0  advertisement -6 0  af -4 -3
affiliate -2 0  ajax 0 -7  aktuell 0 3  alert -4 0  align 3 -4  aligncenter 2 0  alignright -2 0  allgemein -4 7
alpha 0 2  also 0 2  alt 0 2  alternate 2 0  amp 2 0  and 0 3  animate -4 0  animated 0 -2  ap -6 -3  app 0 -2
archive -2 -2  archivedate -2 0  area -7 7  art -2 0  article-body -4 -5  article-content 2 0  articles -3 -2  aside
-2 -11  asset -3 0  attachment 0 3  attribution -6 0  author -10 -9  auto -6 -6  av -2 0  background 0 -7  banner -11
-8  bar -9 -5  bars 0 -2  base -2 0  basic -5 -4  bb 0 -2  bb-default 5 0  bd 0 7  beitrag 0 -2  below -5 0  between 0
-2  bg 2 -6  big -3 4  bin 0 -2  bio -6 0  block 4 2  blockquote 3 2  blog -4 2  blog1 0 3  blue 4 -5  body 5 0
bodycontent 2 -4  bodytext 5 0  bold -2 0  book -11 0  border -4 -9  borlabs 0 -2  both 3 3  bottom -4 -4  box 0 3  bp
0 2  br 3 0  brand 0 -2  branding 0 4  breadcrumb 3 0  breadcrumbs -2 0  breaker -8 0  brlbs 0 -4  bs -3 0  btn -4 0
builder 0 -2  business 0 4  button -4 0  buttons -2 0  buybox 18 -3  byline -15 0  ca 2 0  calendar 0 -3  caption -14
-2  card -3 2  cards 0 -3  carousel 2 -2  categories -2 0  categories-3 2 0  category -2 0  cc 0 -4  cd 0 -5  ce 7 -5
cell 0 -2  center -8 0  cf 5 8  change -2 0  channel -3 0  chapo 3 0  children 0 3  circle 5 0  class 7 2  clear 0 -5
clearfix -6 0  cli 0 -5  clr 0 -4  cms -3 -3  col 3 0  col3 0 -3  collection 0 -3  column -2 0  columns -5 -3  comment
-4 -6  commentform -6 -2  commentlist -23 -3  comments -19 -9  community 0 -2  compact -2 0  company 0 5
complementary 0 4  component -3 -5  components 0 -2  composite -5 0  con 0 -2  consent -3 0  container-buybox 5 0
container-disclaimer -2 0  container-footer 0 -2  container-header 3 0  contenedor 2 0  content 2 2  content-container
0 -4  contentbox 0 -2  contents 4 2  control -2 -3  cookie -3 -6  cookies -4 0  copy -5 -2  copyright -9 0  country 0
-3  coverage -2 0  create 0 3  creative -2 2  crp -2 0  csc -5 0  cta -3 -5  current -3 -3  custom -5 0  dark -2 0
data 4 -7  date -9 3  de 0 3  dedicated -3 0  default -4 -3  dek -2 0  depth -3 5  der 0 -3  desc -4 0  description 0
10  design 2 2  desk -2 0  desktop 0 5  detail 3 -3  details 12 16  deutschland 0 3  dialog 0 -7  direction 0 2
disable 0 -4  disclaimer -19 0  disclosure -9 0  discussion -9 0  display -2 -3  displayed 0 3  divider -2 0  dk -2 0
dm 0 2  doc 5 4  document 5 16  dom-search 0 -2  dom-search-tlds 0 -2  down 0 -2  download 5 0  drop -2 0  dropdown -2
0  ds 3 0  dyn 0 2  edge 0 2  edit -5 0  edition 2 0  editor -5 -11  editorial 0 2  ef 0 2  element 0 -2  elementor 6
0  embed -7 -4  en -3 -3  enabled -2 0  encabezado 0 2  entity 0 3  entries 6 0  errors -2 0  ev 0 -2  even -2 0
event 7 3  events 3 4  excerpt -2 0  extra 0 -2  extras 0 -2  ez 0 2  fade -3 -5  fallback 0 -4  false 0 2  faq 4 0
fashion 0 -3  fb 0 2  feature 0 -3  features 2 -6  field 0 2  figure -6 0  film -2 0  first -2 4  fitness 0 2  fix 0
-3  fixed 0 -2  fl 0 -2  flex 0 8  flexbox 0 -3  flexslider 0 5  floatbox 0 2  floated 2 0  fluid 3 8  flyout 0 -3  fn
0 -2  font 0 -3  footer -19 -17  for -3 0  form -15 -10  format 3 4  formatted -2 0  forum -3 -6  four 0 -4  fp -3 0
frame 6 3  free 0 -3  ft 0 -6  fulltext 2 0  function 2 2  fusion -6 0  fusion-app 0 3  fw 2 2  gallery -3 -5
gamehall 0 2  general 0 -2  gesellschaft 2 0  gk 0 2  global -2 0  google 0 5  gray -3 0  grey -3 0  group -3 0  gt 2
2  guide 0 -3  gutter 0 -2  h1 2 0  h4 -3 0  has 0 -3  header -2 -2  heading -7 -4  headline -4 0  headlines 0 -3
health 0 -4  height 2 3  help -2 0  helper 0 -2  hentry 2 6  hero -5 5  hfeed 0 -7  hidden -3 -11  hide -4 -5  holder
0 -4  home -2 0  hook 3 0  hot -2 2  hs 0 2  html 0 2  icon -4 -3  id -3 3  ie 0 -3  image -12 -2  images 3 2  img -3
0  in -11 2  indent 0 3  infinite 0 3  info -8 0  infobox -4 0  ingredient 2 0  ingredients 0 4  inhalt 0 6  inline -4
-7  inner -2 0  input -2 0  interactive 0 -4  interior 0 -3  internal -2 0  intro 7 0  is -7 6  issues 0 -4  item -3 0
items 0 -10  jumbotron 0 -7  justify 0 -3  kb 5 -2  kommentar -2 -3  kommentare -4 0  kultur 0 -6  l1 5 0  l2 2 0
label -8 0  landscape 0 2  large -2 0  last -4 -6  lateral 0 -2  latest -5 -3  layout -5 0  lb 2 0  lead 3 0  leader 2
0  leading 2 0  left -3 0  legal -6 0  legend -5 0  level -5 -2  lg -9 -3  lh 2 0  light 2 5  line 6 -5  link 0 -3
links -7 -4  list 0 4  live 2 0  ll 0 4  load 0 2  location 0 3  login -3 0  long -2 0  loop -4 2  lower 0 3  ls -4 0
ltr 2 0  lvl 0 2  magazine 0 -2  mail 0 3  main 0 -2  main-container 0 -3  main-content 2 -2  main-wrapper 0 -8
maincontent 3 3  manager -2 -2  margin 3 0  markdown 14 5  marketing -4 4  master 2 6  match 2 0  max 0 3  mb 2 -2  mc
0 -2  mc-embedded-subscribe-form -4 0  mc_embed_signup 0 -3  mc_embed_signup_scroll -2 0  media -5 2  medium -5 0
mega 2 3  member 12 14  membership -2 0  menu -8 2  menuitem -3 0  message 0 3  meta -11 0  metadata -2 0  mg 3 0  mid
-2 0  middle 0 -3  mini 0 -3  mobile -5 0  mod 0 -7  modal 0 -13  model 2 -3  modul 0 3  module -5 0  modules -4 0
money 0 2  more -6 -4  most 0 -5  mr 0 2  mt 0 -2  mt4 0 -2  multi -2 3  mv 0 3  mw 2 0  mx -5 0  my -3 -2  n2 0 -2
name -3 0  nav -15 0  navbar 0 -4  navigation -9 -6  nested 4 0  new 2 0  news -3 -5  newsletter -13 -5  newsticker 3
6  ng 0 2  nine 2 0  nj -2 3  no -2 -4  node 6 -2  non 0 -2  none 0 -4  normal 2 -2  nota -6 0  note -9 -3  notes 3 0
notice -6 0  noticias 0 -4  ns 0 -2  nv -2 -2  object 2 0  odd -3 4  of -2 -5  off 0 -5  offset 4 0  ohne 0 2  ol 0 3
old 0 7  on -2 2  one 3 -4  onecol 0 -3  online 0 2  only 0 -4  opacity 0 -2  open 0 4  order -5 -2  other -3 0  our 3
0  out 0 2  outer 8 0  overlay 0 -3  p0 0 3  package 0 -2  pad -3 3  padded 0 -2  padding 0 8  page 3 -2  pagination 0
-2  paid -2 -3  pane 0 -4  panel 2 3  panels 0 -2  para 3 0  paragraph 3 0  parent 0 4  parked 0 9  password 4 2
paywall -3 -5  per 0 3  pg 0 3  photo -4 0  pic 5 0  pie -3 0  pl 0 4  placeholder 0 -2  plain -2 0  playlist 0 -2
plus -7 0  pm 7 2  podcast 2 0  podcasts -2 0  policy 0 -3  popular -3 -5  popup -3 -2  portfolio 0 -2  portrait 0 -3
pos 2 0  position -2 0  posts 2 0  prefooter 0 -2  premium -2 3  presentation -3 -3  press -2 -3  prev -2 0  preview 0
-2  primary 3 2  principal 0 -7  print -4 -6  privacy 0 -2  promo -7 0  ps 0 4  pt 3 -3  pub -2 -2  pulldown 2 2  pum
-2 -2  push 0 -3  px 4 -3  py 0 6  qa -2 0  question -2 0  quickedit 0 -4  quote 3 5  qv 2 0  rail 0 3  ratgeber 0 2
rating -2 -2  read -2 2  reading -4 -5  recent-posts-2 2 0  recent-posts-3 2 0  recipe 3 6  recirc 0 -2  recommend 0
-2  reference -2 2  references 4 -2  region -3 -3  regular 0 -4  rel 0 -3  related -13 -13  relatedposts -3 0
relative -2 0  remove -3 0  repeater 0 3  reply 4 0  respond -14 -2  response -5 0  responsive -3 2  results 7 0
reviews 0 -2  revisions 0 2  rh -2 0  rich 3 0  right -4 -5  root 0 7  round 0 2  rows 0 -4  rp -4 0  rs 0 -2  rt 0 2
rte 4 0  sc -3 0  scheme 2 5  scroll 0 -4  sd -6 -4  search -4 -2  searchbox -5 0  searchform 0 9  secondary -6 0
section 8 4  sections 0 -4  see 2 0  segment -2 -3  select -3 0  selected -2 0  selector 0 -4  seo -2 -2  sf -2 0
share -10 -6  sharebar 0 3  sharing -4 -2  shell 0 -2  shipping -6 0  shop -3 0  short 3 0  show -4 -3  shrink 0 -3
side -3 -2  sidebar -11 -6  sidemenu 0 -2  sidenav 0 -2  signature 4 0  signup -4 -3  simple 2 -4  single 3 0  site -4
-2  size -2 0  skin 0 7  sl 0 3  slide 0 -3  slider 0 -7  slides 2 0  slideshow 0 3  slim 2 0  slot -7 0  sm 7 8
small 5 -2  social -11 0  sp 0 -2  space 0 -2  span -5 -3  span4 0 -3  span6 0 -2  span8 0 -2  span9 0 -2  special 0
-2  sports -2 -3  ss 0 -4  st 5 3  stage 0 -2  standard -10 -4  star 0 2  start -2 -3  static -2 0  status 5 0  std 2
0  steady 0 -5  step 2 0  steps 8 3  sticky 5 0  stop 0 -4  stories 0 -2  story -2 -7  strip 0 -2  style 0 -4  styled
2 0  sub 0 4  subline -2 0  submenu 0 -3  subnav -7 0  subscribe -7 0  summary 10 6  supplement 0 -2  support 2 0  sw
0 -8  swipe 0 -2  swiper 0 6  switch 2 -4  system 0 7  tabbed 0 -2  tabcontent 0 2  table 9 -7  tabs 0 -5  tag 2 0
tags -9 0  taxonomy -3 2  tb 0 -8  teaser -5 -9  teasertext -3 0  template -3 0  term -2 2  terms -7 0  text 3 0
text-11 3 0  textbox -3 0  texte 0 -2  textmedia -2 0  texto 2 0  textwidget -2 -4  the 0 -3  theme 3 -6  themen 0 3
themes 3 0  this -4 0  thread -7 -3  three 3 -3  thumbnail -5 0  tile -2 0  time -3 0  tip 0 -3  title -5 3  tm 0 -4
toc -3 6  toggle 3 -2  tools -2 0  top -2 -4  topics 0 -2  toplevel 0 -2  trending -5 -3  tribe 4 2  tw 4 -3  tweet 5
0  two 0 3  type 9 2  uk -8 2  ul -2 0  undefined 0 2  underlined 2 0  unstyled 0 -5  va 2 0  validate -4 0  variable
0 -5  vcard -2 0  version -3 0  vertical 0 -3  video 0 -4  viewport 0 5  views -7 0  visibility -2 0  visible -4 -3
vp 0 2  vps -2 0  warning -7 0  weight 2 0  well -5 0  werbung -3 0  wf 3 0  white -2 3  wide 0 -6  widget -5 -4
width 0 2  wissen -2 2  with -2 0  wp -5 0  wpb 4 3  wprm -2 0  wrapperdivisions 0 -2  writer -2 -2  ws -2 -2  wysiwyg
2 0  xl -5 3  xlarge 4 0  xoxo 3 3  xs -6 3  xxs -4 0  zero 0 -2  zone 0 -2
"""
