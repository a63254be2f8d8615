"""Feature codes: what the paper prints, the ways of Algorithm 2, and texts nobody wishes for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dustream.core.errors import BadSetting
from dustream.core.text.code_parameters import DEFAULT_ANCHORS, DEFAULT_PARAMETERS, CodeParameters
from dustream.core.text.feature_code import feature_code, purify
from dustream.core.text.repeatability import repeatability
from dustream.core.text.scan import scan

PRINTED = (
    "系统采用的特征码提取算法是基于语法获取特征的方法。这种方法将网页内容看成字符流，"
    "以一些标点符号和常用汉字作为锚点，从网页内容中抽取文字作为网页特征码。"
)

# Table I: a page whose one unit is its article, most of the page but less than 300 characters.
ARTICLE = (
    "王先生昨日表示，一项新的调查显示两地的收入差距正在缩小，站在高处看，只有把小事做好，就能表示对民众的尊重。"
    "对于这个难题，最近的机构报告给出了答案，害怕变化的人往往最严格，府内的形势也在好转，形象因此得到改善。"
    "他认为这项工作不会在一年之内完成，因为各地的条件不同，需要逐步推进。会议之后，代表们参观了新建的图书馆，"
    "并且听取了负责人的介绍，许多人在留言簿上写下了自己的看法。下一次会议将于明年春天在南方的一座小城举行，"
    "届时将公布第二份报告，并且邀请各界人士参加讨论，听取他们的意见。组织者希望到时候会有更多的年轻人到场。"
)
SECOND = "记者张三报道。"
LINKS = "相关专题\n我来说两句"
SHORT = (
    "“中国制造”由于毒奶事件而在全球声誉下挫，在不顾公共道德追逐暴利的逆流之中，幸好还有“神七”成功飞天令世人对"
    "“中国制造”重拾信心。"
)
LONG = (
    "在神七科研攻关中，哈尔滨工业大学承担着宇航员舱外宇航服的地面实验系统，学院气动技术中心课题组负责“水平舱环控系统"
    "改造”和“紧急复压系统”的研制。而在神七发射前38分钟，上海的一名科研人员拔掉地面连接神七的最后一个重要插座，成为"
    "最后一位撤离发射架的人。"
) * 3


def page(second: str = SECOND, links: str = LINKS) -> str:
    return "\n".join(part for part in (ARTICLE[:6], second, ARTICLE, links) if part)


def test_the_example_of_the_paper() -> None:
    found = feature_code(PRINTED)
    assert found.code == "系法这流以点从码"
    assert found.way == "units" and found.units == (PRINTED,)


def test_an_anchor_more_takes_more() -> None:
    anchors = {**DEFAULT_ANCHORS, "zh": DEFAULT_ANCHORS["zh"] + "的"}
    assert feature_code(PRINTED, CodeParameters(anchors=anchors)).code == "系用特征方法这流以点从码"


def test_table_1_deleted_links_change_nothing() -> None:
    assert feature_code(page()).units == (ARTICLE,)
    assert feature_code(page(links="")).code == feature_code(page()).code


def test_table_1_a_long_text_in_the_second_paragraph_makes_another_page() -> None:
    before, after = feature_code(page()).code, feature_code(page(second=SECOND + LONG)).code
    assert repeatability(before, after) <= 0.1
    assert repeatability(after, before) <= 0.1


def test_table_1_another_short_second_paragraph_changes_nothing() -> None:
    assert len(ARTICLE) < 300
    assert feature_code(page(second=SHORT)).code == feature_code(page()).code


@pytest.mark.parametrize(("chars", "is_unit"), [(299, False), (300, True)])
def test_a_unit_by_length(chars: int, is_unit: bool) -> None:
    found = feature_code("甲" * chars + "\n" + "乙" * 250)
    assert found.paragraphs[0].is_unit == is_unit


@pytest.mark.parametrize(("chars", "is_unit"), [(74, False), (75, True)])
def test_a_unit_by_share(chars: int, is_unit: bool) -> None:
    found = feature_code("甲" * chars + "\n" + "乙" * (100 - chars))
    assert found.paragraphs[0].is_unit == is_unit


def test_units_follow_each_other_in_the_code() -> None:
    first, second = "一二，三四，五六。" * 40, "七八，九十，百千。" * 40
    found = feature_code(f"{first}\n短\n{second}")
    assert found.code == feature_code(first).code + feature_code(second).code
    assert len(found.units) == 2


def test_many_short_paragraphs_give_their_ends() -> None:
    lines = [
        f"{left}中间{right}" for left, right in zip("甲乙丙丁戊己庚辛壬癸子", "一二三四五六七八九十百", strict=True)
    ]
    found = feature_code("\n".join(lines))
    assert found.way == "paragraph_ends"
    assert found.code == "甲一乙二丙三丁四戊五庚七辛八壬九癸十子百"


def test_few_short_paragraphs_are_one() -> None:
    found = feature_code("一二，三四。\n五六，七八。\n九十，百千。")
    assert found.way == "anchors"
    assert found.code == "一二三四五六七八九十百千"


def test_a_code_too_short_gives_way_to_the_beginning() -> None:
    text = "没有标点符号的一段文字就这样一直写下去直到超过二十个字为止"
    found = feature_code(text)
    assert found.way == "beginning" and found.code == text[:20]


def test_only_the_first_thousand_characters_count() -> None:
    text = "天地，玄黄。" * 300
    assert feature_code(text).code == feature_code(text[:1000]).code != feature_code(text[:900]).code


def test_paragraphs_are_the_blocks_of_the_page() -> None:
    html = f"<html><body><article><h1>标题</h1><p>{ARTICLE}</p><p>{SHORT}</p></article></body></html>"
    found = feature_code(scan(html).text)
    assert [paragraph.text for paragraph in found.paragraphs] == ["标题", ARTICLE, SHORT]


@pytest.mark.parametrize(
    ("language", "text", "code"),
    [
        ("ja", "これは文章です。次の文章、そして最後・終わり。", "こす次章そ後終り"),
        ("ko", "안녕하세요, 세계. 오늘은 날씨가 좋다! 정말?", "안요세계오다정말"),
        ("", "One day, two nights. Three (or four) weeks!", "OytsTeorws"),
        ("", "मैं घर, तुम दूर। हम पास।", "मरतरहस"),
    ],
)
def test_anchors_by_language(language: str, text: str, code: str) -> None:
    found = feature_code(text, CodeParameters(code_chars_min=0))
    assert (found.language, found.code) == (language, code)


@pytest.mark.parametrize("text", ["", " \n\t\r\n", "\u200b\u00ad\ufeff\n\u3000", "\ue000\uf8ff\U000f0000", "\ud800"])
def test_nothing_visible_has_no_code(text: str) -> None:
    found = feature_code(text)
    assert found.code == "" and found.paragraphs == ()


def test_only_anchors_is_the_beginning() -> None:
    assert feature_code("。，！" * 20).code == ("。，！" * 20)[:20]


def test_one_character_repeated() -> None:
    assert feature_code("哈" * 50_000).code == "哈" * 20


@pytest.mark.parametrize("filling", ["汉字，", "\u200b", "\n", "甲\n"])
def test_ten_megabytes(filling: str) -> None:
    text = filling * (10_000_000 // len(filling))
    assert len(feature_code(text).code) <= 1000
    assert feature_code(PRINTED + "\n" + text).paragraphs[0].text == PRINTED


def test_invisible_characters_hide_nothing() -> None:
    hidden = "\u200b" * 2_000 + "\ue123".join(PRINTED) + "\ufe0f"
    assert feature_code(hidden).code == feature_code(PRINTED).code


def test_mixed_scripts_take_the_anchors_of_one() -> None:
    text = "Kafka 是一个分布式系统, 支持流处理。Faust はライブラリ、です。안녕, good bye!" * 3
    found = feature_code(text)
    assert found.language == "ja"
    assert found.code.startswith("K统支理Fリで")


def test_parameters_that_make_no_sense_are_refused() -> None:
    with pytest.raises(BadSetting, match="twice"):
        CodeParameters(paragraphs_min=9)
    with pytest.raises(BadSetting, match="anchors"):
        CodeParameters(anchors={"zh": "。"})
    with pytest.raises(BadSetting, match="unit_share_min"):
        CodeParameters(unit_share_min=0)


@given(st.text(st.one_of(st.sampled_from("甲乙，。\n\u200b \ue000.a"), st.characters()), max_size=400))
def test_any_text_has_a_code_of_its_own_characters(text: str) -> None:
    found = feature_code(text)
    kept = "".join(paragraph.text for paragraph in found.paragraphs)
    assert kept == "".join(purify(text, DEFAULT_PARAMETERS.text_chars_max).paragraphs)
    assert set(found.code) <= set(kept)
    assert len(found.code) >= min(len(kept), DEFAULT_PARAMETERS.code_chars_min)
    assert feature_code("\n".join(paragraph.text for paragraph in found.paragraphs)) == found
