"""The trees of the model of main text. Written by bench/train_main_text.py: learned, not edited.

Learned with lightgbm 4.7.0, seed 17, 120 trees of 3 levels, from pages: 93 of E_articles_with_truth, 1635 of
C_pages_multisite, 900 of generated, 245 of A_networkx_doc, 219 of A_kafka_site, 249 of A_dolphinscheduler_zh_en, 180
of B_recrawl_flink, 506 of F_segments_to_keep_and_leave. Each question is a feature and a threshold, in the order
root, its two children, their four; each answer a number of 1 / SCALE logits, those below a question that is answered
with no first. Each word has two weights, in eighths of a logit: on the containers next to a block, and on those
further up.
"""

SCALE = 64
FEATURE_NAMES = (
    "length", "link_share", "kind", "last_char", "first_char", "sentence_ends", "bytes_before", "heading_before",
    "heading_level", "top_heading", "down", "depth", "page_links", "page_prose", "c0_links", "c0_block_bytes",
    "c1_links", "c1_of_page", "c1_of_page_prose", "c2_links", "c2_of_page", "c2_of_page_prose", "c2_block_bytes",
    "c3_of_page", "words_near", "words_far", "words", "w3_links", "w3_prose", "n-2_link_share", "n-1_link_share",
    "n1_link_share", "n2_link_share", "path_boilerplate", "path_footer", "path_navigation", "path_aside",
    "path_article", "path_main", "path_comment", "path_byline", "path_related", "path_caption", "path_form",
    "path_list", "path_share", "path_section", "path_concealed", "in_table", "in_list_item", "in_description",
)  # fmt: skip
QUESTIONS = """
13071a0b1a100205071521001a17
10020a03100927001a001a181a0f
12001a0a0a00180d1a150e0c1812
0e09210021001100150704010000
10051a0e1a11180b1f0e14053000
1b02180e180f26002b001c131a19
180e160e100c250002032b001409
1a10160a21001402020624000000
1004220021000206210014020000
180d260021001301180c1e0b1007
1b031102180c2e0002040000060c
20081810060c27000107090e3200
180e25001d0f20030e0511002300
2100060c10041b02320000000000
00112400260023000b0520092008
180825001701290003021913070d
17001a12200a320020071a140c08
220001040606060c13012e002900
14013000210032002500110e0000
21001a1400001400280000000000
02070906310010012700090f070d
00110a0121000207191a1c1a0000
09092500240023000e0d22002500
0a022f0030002700190a26001a10
060a23002e0008002e000c0b0d01
2100060b000024002c0000000000
240008001109260011002600140c
090d0b0f0401140a0703150c0608
090b2500060529002e001e060401
30003200160b0401040208001b01
0d0124001101210021003000170e
00100d0325002400320013000302
2d00020703033000310030000000
21002a000600090e110000000000
18112e0003030f0d04012c002d00
1a1025002a00060a10040d0a0603
2900181018050f0f000c1a002200
060b21003100000e000032002100
04011b070b03090b080125000011
060d270028002f0018122c002f00
30001d03170d2005181009041a12
001009091c122800020026002d00
060a02070a012700001015073000
32000d042900090502060c010000
2800260004001a1602021b020207
220029002e002d001b0429001703
300032000914091d2e002e000e03
0c0a010217042005160c0801130e
2e000011280004011402200b2008
060a2f00310027002e000a010018
2400090b250006080d0312091708
2e0023002c0022001e05191b090f
000e2a001d0530003000200a0f10
2400060b250004011d0628003100
03030d07080015042e000f152d00
2d00020720041d04310012023000
04011b000e02260012041b012700
020007091a1d070710030c0d1813
0207030331000203250015092400
0b010801110b1f0a26002b00140e
0303120b08000c0e2e00091a0915
0401220029001b04020602073000
2f00320018051c001e0800000000
0a0127002600310031002e00000f
2f00090b2e00290021000000110b
090a15012a002a00150e0b01150c
1a1c1707040224000b0522002600
090d0b0e040128002f0028000608
22001401110a0d0c0c0b13070000
2d0010031912010a24001c141c00
0f0e0012160c160e0000110b1102
080131001f0e12002e002e00010b
160b170e0a00170c0c0a1c190a02
14001d0715000607060414090f18
2800050129001d030e032e00170a
020427000207170b1f001b073100
0d003100000900000c0e0b0b0405
24001e062800200928002e002007
110610031c1a1c1026000e000000
2a002b00080023000800150e2f00
060d040129000902060531001c0f
1a080f0602001107030207041507
1c17320000002b00160500000000
2d0002010f10160e29001b040000
15051700010d180b24000d0c2008
28002600181a1a1a1a0d30000302
1f061e0b1e0200151b02110b0201
2b001e03160c060715013000150a
22001a041f0429002900140a1301
000f04030703040020031b0a0801
0c022500320023003100110b1b08
03031b011e092c0014070c022700
0401280003032e0010051c0e2f00
000e2f00090e14061a08090b1006
1b00030205031c181a0231002e00
0200250025000c0600000d030c02
090a26001b0e060306060605070c
0602230006080f10110831000f12
190c160d2d002005010c24001407
091d02012300100e1a0415080c0d
0306260004012300030126002600
05040f1800002800000000000000
2a0021001f090503181706062006
2900270018082c0002060204120c
2200060b28001610191723001c15
27000600070f2800020602041e06
040026001a011a0f2c0029001a09
0400060c060723000000000e0712
02040c0a31002a00030312040907
30000f0f26002b001c0e1d0a2400
04010d0409030912020611021d09
0201180b14031107140219171b0e
1c101a100100091626001f061008
0009020031000711190700152700
001416122c000919000000000000
1e0d01051f050f111c102c000f12
090e1a0c0402310025000015110c
2900181d181a18011b0119100000
32000b002e001f0702001d0b2400
050312000e0824001306150a0800
"""
ANSWERS = """
feee0ffbeae9f30a
0df3eefbf812edf3
eff2f80e0ff4f80d
fe0beee80df1f0f0
f1020cfdf1f8fe12
f4000af4f203f90d
f3f808fb08f4f508
f3f704f409faf0f0
07fbf7eff601f3f3
f8f3f70407fdeef3
fd050afdf4f4fdf4
00f20afbf4fff303
f9f402f60108fef3
05fef70af1f1f4f4
01f6f0f70af70b0f
f4fef4fef90205f9
f60206f6020afa04
04faedfdf906f3fa
f90c030f05f8f3f3
fb0109f8f4f4f4f4
ebf503f3f2f806f4
04fbf90608f4f6f6
f2f505fb02f7f3ff
03f6fee5f8fefd0d
fb06f600f8080cfe
03fbf901f5f5f5f5
f805ff05f5fa06fa
f5f00afe0d0203fb
f4fef61206ff08fd
07fe0ef7ff0c01f8
09f7f5fffc0605fd
06f4fc0b07fc1208
0108f906f809eded
f602f7fff9f9f5f5
fb010a00fb0706ed
fff904fb04fd07f1
fd05010503faf501
ff05f6f6fa0703f7
f3061203f8070008
01f4f807fb00f209
02fdfb00f609f80d
f5ed0efff60506f4
03f4fd0504fff802
f805fffafb0df8f8
fd08fd05d602fef5
01f8fcf4f6fef404
fe03040efa05050b
02fd00f205f7fe15
03fefe070601fdf1
02faee0200f80215
f70406fff6fbfb08
00f9fef702e2f908
ff04f3050600fd04
0800fffaf6fffe0a
03fcfafffa0702f7
03fffb06f502f202
fd0809fc01fdfcef
fa060f1a00100009
fc020004fefa07fa
fa02f00800f9030d
0025f507f3020701
020aedfe00fcf709
02ff0bfc0000f1f1
010603f1fdf8fe07
f80801f7f2f2f90d
f6050bf9fb01fcf6
fffbff040af908e8
f6fcfe0c06e802fd
fff7010af8010202
00f103fcf706fbde
00fcf0f001ee0105
0501fc050004f801
020cfc0d01e9f8fd
03fefdf8020dffdc
01fe010ffff9fde3
ff01f00709fdff06
0909fc15fff60005
02fe00f8f8fe030c
00fd000304fde8e8
01fc04f615fbf80c
f70501fefa01f918
f502fe06fc0e01fe
00fcf60b08080808
060001fcfaf50707
0afc03fbfe04f5fe
ff0706fefe0504e6
0110fafff8040eff
030001fcf40513ff
fc0e01f9fb03f1fc
f700fdf6fe200108
00fa040a00fb0afb
fc00fe0405fffc08
020aeefb00fc01f8
fe00fef4fbf302f7
ffecfd03fd011002
06fe0d0d02fe05ff
f7fd02f801ff09fa
030af70b02fffe0b
030bfff300f9f1fb
04fbfaff06fef50d
01f80004090100f9
00fddddd0c0c0c0c
000cf801fcf50dfb
ff02f50710f9f408
01fbfef7f8fffe08
fc0301fff305fc1b
00effc01fd060501
f50504040003ff05
fd03080101fbf908
00f9160102fd0afd
ff07fd03feed00ff
ffed0006fe040005
04ff060000f8f802
fd0cf8fe000f05fd
01fff1f10e0e0404
02fa03f6fa00010d
05faf502010efd08
fc00ff0c03f4ecec
f304070004fa0bfd
0003fff303081805
"""
WORDS = """
10 2 -2  100 0 3  11 0 -3  113 0 2  12 0 -2  14 0 -5  187 0 -4  19 0 -4  1st 0 2  1tier 5 0  20 3 0  21 0 5  23 2 0
24 0 -2  240 0 2  2xl 0 -2  30 0 -2  300 0 -3  32 2 0  37 -2 2  40 0 2  50 -2 0  __layout 0 3  __next 0 2  __nuxt 0 3
about -5 0  above 2 0  access 5 -2  accordion -4 0  actions -2 0  active 2 -2  address 2 0  ads -3 0  advanced 2 0
advertisement -6 0  af -5 -3  affiliate -3 0  ajax 0 -7  aktuell 0 3  alert -4 0  align 3 -4  aligncenter 2 0
alignright -2 0  allgemein -4 7  alpha 0 2  also 0 2  alt 0 3  alternate 2 0  amp 2 0  and 0 4  animate -4 0  animated
0 -2  ap -7 -4  app 0 -2  archive -2 -2  archivedate -2 0  area -8 6  art -2 -2  article-body -4 -5  article-content 2
0  articles -3 -2  aside -2 -11  asset -3 0  attachment 0 3  attribution -6 0  author -10 -10  auto -6 -6  av -2 0
background 0 -7  banner -11 -8  bar -9 -6  bars 0 -2  base -2 0  basic -6 -4  bb 0 -2  bb-default 5 0  bd -2 7  beauty
0 2  before 0 -2  beitrag 0 -2  below -6 0  beta -2 0  between 0 -2  bg 0 -6  big -4 4  bin 0 -2  bio -6 0  block 4 2
blockquote 3 2  blog -4 2  blog1 0 2  blue 4 -5  body 5 0  bodycontent 3 -4  bodytext 6 0  bold -2 0  book -11 0
border -4 -9  borlabs 0 -2  both 3 3  bottom -4 -4  box -2 4  boxed 0 2  bp 0 2  br 4 0  brand 0 -2  branding 0 4
breadcrumb 3 0  breadcrumbs -2 0  breaker -8 0  brlbs 0 -4  bs -3 0  btn -4 0  builder 0 -2  business 0 4  button -4 0
buttons -2 0  buybox 18 -3  byline -16 0  ca 3 0  calendar 0 -3  caption -14 -2  card -3 2  cards 0 -3  carousel 2 -2
categories -2 0  categories-3 2 0  category -2 0  cc 0 -4  cd 0 -6  ce 7 -4  center -7 0  cf 5 8  change -2 0  channel
-3 0  chapo 3 0  children 0 2  circle 6 0  class 7 2  clear 0 -6  clearfix -6 0  cli 0 -5  clr 0 -4  cms -3 -3  col 3
0  col3 0 -3  collection 0 -3  columns -5 -3  comment -3 -6  commentform -8 0  commentlist -25 -3  comments -20 -8
community 0 -2  company 0 5  complementary 0 4  component -3 -5  components 0 -2  composite -5 0  con 0 -2  consent -3
0  container-buybox 5 0  container-disclaimer -2 0  container-footer 0 -2  container-header 3 0  contenedor 2 0
content 2 2  content-container 0 -4  contentbox 0 -3  contents 4 2  control -2 -3  cookie -3 -7  cookies -4 0  copy -4
-3  copyright -9 0  counter -2 0  country 0 -4  coverage -2 0  create 0 3  creative -2 2  crp -3 0  csc -6 0  cta -4
-6  current -3 -3  custom -5 0  dark -2 0  data 5 -7  date -9 3  de 0 2  dedicated -3 0  default -4 -3  dek -2 0
depth -4 4  der 0 -3  desc -4 0  description 2 11  design 2 2  desk -2 0  desktop 0 6  detail 3 -3  details 14 17
deutschland -2 4  dialog -2 -7  direction 0 2  disable 0 -5  disclaimer -20 0  disclosure -10 0  discussion -9 0
display -2 -3  displayed 0 3  divider -2 0  dk -3 0  dm 0 2  doc 5 4  document 5 16  dom-search 0 -2  dom-search-tlds
0 -2  down 0 -2  download 6 0  dr 0 2  drop -2 0  dropdown -2 -2  ds 2 0  dyn 0 2  edge 0 2  edit -5 0  edition 2 0
editor -6 -11  editorial -2 2  ef 0 2  elementor 6 0  embed -7 -4  empty -2 0  en -3 -3  enabled -3 0  encabezado 0 2
entity 0 3  entries 6 0  errors -3 0  ev 0 -2  even -2 0  event 7 3  events 3 5  excerpt -2 0  extra 0 -2  extras 0 -2
ez 0 3  fade -3 -5  fallback 0 -4  false 0 2  faq 4 0  fashion 0 -3  fb 0 2  feature 0 -3  features 2 -6  field 2 3
figure -6 0  film -2 0  first 0 4  fitness 0 2  fix 0 -4  fixed 0 -2  fl 0 -2  flex 0 8  flexbox 0 -3  flexslider 0 5
floatbox 0 3  floated 2 0  fluid 3 8  flyout 0 -4  fn 0 -2  font 0 -4  footer -20 -17  for -3 0  form -15 -10  format
3 4  formatted -2 0  forum -3 -5  four 0 -5  fp -2 0  frame 5 3  free 0 -3  ft 0 -6  fulltext 2 0  function 2 2
fusion -6 0  fusion-app 0 2  fw 2 2  gallery -3 -4  gamehall 0 2  general 0 -2  gesellschaft 2 0  gk 0 2  google 0 5
gray -3 0  greetings 2 0  grey -4 0  group -3 0  gt 2 2  guide 0 -4  guidelines 2 0  gutter 0 -2  h1 2 0  h4 -3 0  has
0 -3  header -2 0  heading -7 -5  headline -5 0  headlines 0 -3  health 0 -4  height 2 3  help -2 0  helper 0 -2
hentry 2 6  hero -6 5  hfeed 0 -7  hidden -3 -11  hide -4 -5  holder 0 -4  home -2 0  hook 3 0  hot -2 0  hs 0 2  html
0 2  icon -5 -3  id -3 3  ie 0 -4  image -12 -2  images 3 2  img -3 0  in -11 2  indent 0 3  infinite 0 3  info -8 0
infobox -4 0  ingredient 2 0  ingredients 0 4  inhalt 0 6  inline -4 -6  inner -3 0  input -2 0  inside 0 2
interactive 0 -4  interior 0 -3  internal -2 0  intro 7 0  is -8 6  issues 0 -4  item -2 0  items 2 -10  jumbotron 0
-8  justify 0 -3  kb 5 -3  kommentar -3 -3  kommentare -5 0  kultur 0 -6  l1 6 0  l2 2 0  label -9 0  labels -2 0
landscape 0 2  large -2 0  last -4 -6  lateral 0 -3  latest -5 -3  layout -5 0  lead 3 0  leader 2 0  leading 2 0
left -4 0  legal -7 0  legend -6 0  level -5 -2  lg -9 -3  lh 2 0  light 2 6  line 6 -5  link 0 -3  links -7 -4  list
0 4  live 2 0  living 0 -2  ll 0 4  load 0 3  location 0 3  login -3 0  long -2 0  loop -4 2  lower 0 4  ls -5 0  ltr
2 0  lvl 0 2  magazine 0 -2  mail 0 3  main 0 -2  main-container 0 -2  main-content 2 -2  main-wrapper 0 -8
maincontent 3 4  manager -2 -2  margin 3 2  markdown 14 5  marketing -4 4  master 2 6  match 2 2  max 0 3  mb 2 -2
mc-embedded-subscribe-form -4 0  mc_embed_signup 0 -3  mc_embed_signup_scroll -2 0  media -5 3  medium -5 0  mega 2 2
member 13 16  membership -2 0  menu -8 3  menuitem -2 0  message 0 3  meta -11 0  metadata -2 0  mg 3 0  mid -2 0
middle 0 -3  mini 0 -3  mobile -5 0  mod 0 -7  modal 0 -12  mode 0 2  model 2 -3  modul 0 3  module -5 0  modules -5 0
money -2 2  more -6 -4  most 0 -4  mr 0 3  mt -2 -3  mt4 0 -2  multi -2 4  mv 0 3  mw 3 0  mx -6 0  my -3 -2  n1 0 2
n2 0 -3  name -3 0  nav -15 0  navbar 0 -4  navigation -10 -6  nested 4 0  new 2 0  news -4 -5  newsletter -13 -5
newsticker 3 6  ng 0 2  nine 2 0  nj -2 3  no -3 -4  node 5 -3  none -2 -4  normal 2 -2  nota -6 0  note -10 -4  notes
3 2  notice -7 0  noticias 0 -5  ns 0 -2  nv -3 -2  object 2 0  odd -3 5  of -2 -4  off 0 -5  offset 4 0  ohne 0 2  ol
0 4  old 0 8  on -3 2  one 3 -4  onecol -2 -3  online 0 2  only 0 -5  opacity 0 -2  open 0 4  order -5 -2  other -3 0
our 4 0  out 0 2  outer 8 0  overlay 0 -3  p0 0 3  package 0 -2  pad -3 3  padded 0 -2  padding 0 8  page 3 -2
pagination 0 -2  paid -2 -3  pane 0 -4  panel 2 4  panels 0 -2  para 4 0  paragraph 3 0  parent 0 3  parked 0 9
password 4 2  paywall -2 -5  per 0 3  pg 0 3  photo -4 0  pic 5 0  pie -3 0  pl 0 4  placeholder 0 -2  plain -2 0
playlist 0 -2  plus -7 0  pm 8 2  podcast 2 0  podcasts -2 0  policy 0 -3  poll 0 2  popular -3 -5  popup -4 -2
portfolio 0 -2  portrait 0 -3  pos 2 0  position -2 2  posts 3 2  prefooter 0 -2  premium -2 3  presentation -3 -3
press -2 -3  prev -2 0  preview 0 -2  primary 3 2  principal 0 -6  print -4 -5  privacy 0 -2  promo -7 0  ps 0 4  pt 3
-3  pub -2 -2  pull -2 0  pulldown 3 2  pum -2 -2  push 0 -3  px 4 -3  py 0 6  qa -2 0  question -2 0  quickedit 0 -4
quote 2 5  qv 2 0  rail 0 3  ratgeber 0 2  rating -2 -2  read -2 2  reading -4 -5  recent-posts-2 2 0  recent-posts-3
2 0  recipe 3 7  recirc 0 -3  reference -2 0  references 4 -2  region -3 -3  regular 0 -3  rel 0 -2  related -14 -13
relatedposts -4 0  relative -2 0  remove -3 0  repeater 0 3  reply 5 0  respond -15 -2  response -6 0  responsive -3 2
results 8 0  reviews 0 -2  revisions 0 2  rh -2 0  rich 3 -2  right -4 -5  root 0 8  round 0 2  rounded -2 0  rows 0
-4  rp -4 0  rs 0 -2  rt 0 2  rte 4 0  sc -3 0  scheme 2 6  scroll 0 -3  scrollable 0 -2  sd -6 -4  search -4 -2
searchbox -5 0  searchform 0 9  secondary -6 0  section 8 4  sections 0 -4  see 2 0  segment -2 -4  select -3 0
selected -2 0  selector 0 -5  seo -2 -2  share -10 -5  sharebar 0 2  sharing -4 -2  sharing_email -2 0  shell 0 -3
shipping -7 0  shop -3 0  short 3 0  show -5 -3  shrink 0 -3  side -4 -3  sidebar -12 -6  sidebar-right-1 0 -2
sidemenu 0 -2  sidenav 0 -2  signature 4 0  signup -4 -4  simple 2 -4  single 3 0  site -5 -2  size -2 0  skin 0 7  sl
0 3  slide 0 -3  slider 0 -7  slides 2 0  slideshow 0 3  slim 2 0  slot -7 0  sm 6 7  small 5 -2  social -11 0  sp 0
-2  space 0 -2  span -4 -2  span4 0 -3  span8 0 -2  span9 0 -2  special 0 -2  sports -3 -3  ss 0 -4  st 5 3  stage 0
-2  standard -10 -4  star 0 3  start -2 -3  static -2 0  status 5 0  std 2 0  steady 0 -5  step 2 0  steps 8 3  sticky
5 0  stop 0 -4  stories -2 -2  story -2 -8  strip 0 -2  style 0 -5  styled 2 0  sub 0 4  subline -2 0  submenu 0 -3
subnav -8 0  subscribe -8 0  subsection -2 0  summary 10 7  supplement 0 -2  support 3 0  sw 0 -9  swipe 0 -2  swiper
0 6  switch 2 -4  system 0 7  tabbed 0 -3  tabcontent 0 2  table 10 -7  tabpanel 0 -2  tabs 0 -5  tag 2 0  tags -10 0
taxonomy -3 2  tb 0 -8  teaser -5 -9  teasertext -3 0  template -3 0  term -3 2  terms -7 0  text 3 0  text-11 3 0
textbox -3 0  texte 0 -2  textmedia -2 0  texto 2 0  textwidget -2 -3  the 0 -2  theme 3 -6  themen 0 3  themes 3 0
this -5 0  thread -8 -3  three 3 -3  thumbnail -5 0  tile -2 0  time -3 0  tip 0 -3  title -5 3  tm 0 -4  to -2 0  toc
-4 8  toggle 3 -2  tools -2 0  top -2 -4  topics 0 -2  toplevel 0 -2  tracking 0 2  trending -5 -3  tribe 4 2  tw 4 -3
tweet 5 0  two 0 3  type 9 2  uk -8 2  ul -2 0  undefined 0 2  underlined 2 0  unstyled 0 -6  va 2 0  validate -4 0
value 2 0  variable 0 -5  vcard -2 0  version -3 0  vertical 0 -3  video 0 -4  viewport 0 5  views -7 0  visibility -2
0  visible -4 -3  vp 0 2  vps -2 0  warning -7 0  weight 2 0  well -5 0  werbung -3 0  wf 3 0  white -2 3  wide 0 -7
widget -5 -4  width 0 2  window 0 2  wissen -2 2  with -2 0  wp -5 0  wpb 5 3  wprm -2 2  wrapperdivisions 0 -3
writer -2 -2  ws -2 -3  wysiwyg 2 0  xl -5 3  xlarge 5 0  xoxo 4 3  xs -6 3  xxs -4 0  yarpp -2 0  zone 0 -3
"""
