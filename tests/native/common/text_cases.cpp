#include <string>
#include <vector>

#include "check.h"
#include "common/element_type.h"
#include "common/json.h"
#include "common/text.h"
#include "common/where.h"

using namespace kerncap;

namespace {

std::string quoted(const std::string& text) {
  std::string out;
  json::append_string(out, text);
  return out;
}

// The steps of an expression: `n:NAME` a name, `c:JSON` a constant, `item:N`, `attr:NAME`, `list:N`, or an
// operator.
Where where_of(const std::string& expression) {
  std::string text;
  for (const std::string& token : split(expression, ' ')) {
    size_t colon = token.find(':');
    std::string what = token.substr(0, colon),
                operand = colon == std::string::npos ? "" : token.substr(colon + 1);
    if (what == "n" || what == "attr") operand = quoted(operand);
    if (what == "n") what = word::step::name;
    if (what == "c") what = word::step::constant;
    text +=
        (text.empty() ? "[" : ",[") + quoted(what) + (colon == std::string::npos ? "]" : "," + operand + "]");
  }
  json::Value steps;
  CHECK(json::parse("[" + text + "]", &steps));
  return Where(steps);
}

bool holds(const std::string& expression, std::string* reason = nullptr) {
  std::map<std::string, Term> names;
  names["grid"] =
      Term::of(std::vector<Term>{Term::of(int64_t{128}), Term::of(int64_t{2}), Term::of(int64_t{1})});
  names["shared"] = Term::of(int64_t{4096});
  names["name"] = Term::of(std::string("add_one"));
  names["cluster"] = Term();
  std::string ignored;
  return where_of(expression).holds(names, reason != nullptr ? reason : &ignored);
}

}  // namespace

CASE(json_strings_are_utf8) {
  CHECK(quoted("a\"b\\c\n") == "\"a\\\"b\\\\c\\u000a\"");
  CHECK(quoted("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") == "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
  CHECK(quoted("\xFF") == "\"\xEF\xBF\xBD\"");
  CHECK(quoted("\xC0\xAF") == "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");      // overlong
  CHECK(quoted("\xED\xA0\x80").find("\xED") == std::string::npos);  // a surrogate
  CHECK(quoted("\xE2\x82") == "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");      // cut off
}

CASE(json_writes_and_reads) {
  json::Writer writer;
  writer.begin_object().field(key::pid, 1).key(key::argv).begin_array().value("x").null().value(true).end();
  writer.member("c").begin_object().end().field(key::bytes, uint64_t{18446744073709551615ULL}).end();
  CHECK(writer.text() == "{\"pid\":1,\"argv\":[\"x\",null,true],\"c\":{},\"bytes\":18446744073709551615}");
  json::Value value;
  CHECK(json::parse(
      "{\"match\": true, \"globals\": [\"a\\u00e9\\ud83d\\ude00\", \"b\"], \"index\": -1.5e2}\n", &value));
  CHECK(value.find(key::match)->truth && value.find(key::index)->number == -150);
  CHECK(value.find(key::globals)->items[0].text == "a\xC3\xA9\xF0\x9F\x98\x80");
  for (const char* bad : {"", "{", "{\"a\":}", "[1,]", "{\"a\" 1}", "tru", "\"\\ud800\"", "{} {}"}) {
    json::Value broken;
    CHECK(!json::parse(bad, &broken));
  }
  json::Value deep, wide, odd;
  CHECK(!json::parse(std::string(1000, '['), &deep));
  std::string many = "[0";
  for (int i = 0; i < 200000; ++i) many += ",0";
  CHECK(!json::parse(many + "]", &wide));
  CHECK(json::parse("[Infinity, -Infinity, NaN, \"/\\udcff\"]", &odd) && odd.items[1].number < -1e300);
  CHECK(odd.items[3].text == "/\xFF" && odd.items[2].number != odd.items[2].number);
}

CASE(names_lose_their_parameters) {
  CHECK(without_parameters("void add<float>(float*, int)") == "add<float>");
  CHECK(without_parameters("ns::add(float*)") == "ns::add");
  CHECK(without_parameters("plain") == "plain");
  CHECK(without_parameters("(anonymous namespace)::k(int)") == "(anonymous namespace)::k");
  CHECK(without_parameters("void (anonymous namespace)::k<(ns::E)1>(int)") ==
        "(anonymous namespace)::k<(ns::E)1>");
  CHECK(without_parameters("void k<std::pair<int, float> >(int)") == "k<std::pair<int, float> >");
  std::vector<std::string> types;
  CHECK(parameter_types("void k<int>(float const*, A<int, B>*, unsigned long)", &types) && types.size() == 3);
  CHECK(types[1] == "A<int, B>*");
  types.clear();
  CHECK(parameter_types("tick()", &types) && types.empty());
  CHECK(!parameter_types("extern_c_kernel", &types));
  CHECK(pointed_type("float*").size == 4 && pointed_type("float const*").size == 4);
  CHECK(pointed_type("__half const* __restrict__").size == 2 &&
        pointed_type("*bf16").exponent_mask == 0x7F80);
  CHECK(pointed_type("float").size == 0 && pointed_type("int*").size == 0 &&
        pointed_type("double2*").size == 8);
}

CASE(texts) {
  CHECK(size_text(12) == "12 bytes" && size_text(8ULL << 20) == "8 MiB" &&
        size_text(3ULL << 29) == "1.5 GiB");
  uint64_t number = 0;
  CHECK(parse_u64("18446744073709551615", &number) && number == UINT64_MAX);
  CHECK(!parse_u64("18446744073709551616", &number) && !parse_u64("", &number) && !parse_u64("-1", &number));
  CHECK(crc32(reinterpret_cast<const uint8_t*>("123456789"), 9) == 0xCBF43926U);
  CHECK(split_all("a,,b", ',').size() == 3 && split("a,,b", ',').size() == 2);
}

CASE(where_evaluates) {
  CHECK(holds("n:grid item:0 c:128 =="));
  CHECK(holds("n:grid item:-1 c:1 == n:shared c:4000 > and"));
  CHECK(!holds("n:grid item:0 c:128 == not"));
  CHECK(holds("n:grid c:128 c:2 c:1 list:3 =="));
  CHECK(holds("n:name c:\"add_one\" =="));
  CHECK(holds("c:\"one\" n:name in") && !holds("c:\"two\" n:name in"));
  CHECK(holds("n:grid item:1 c:1 c:2 list:2 in"));
  CHECK(holds("n:shared c:1024 // c:4 ==") && holds("c:-7 c:2 // c:-4 =="));
  CHECK(holds("c:-7 c:3 % c:2 ==") && holds("c:1.5 c:2 <"));
  CHECK(holds("n:cluster c:null ==") && !holds("n:shared c:null =="));
  CHECK(holds("n:grid item:0 c:100 > n:nothing c:1 == or"));  // the other side is not asked
}

CASE(where_tells_what_it_lacks) {
  std::string reason;
  CHECK(!holds("n:num_warps c:4 ==", &reason) && reason == "where: no name num_warps");
  CHECK(!holds("n:grid c:4 <", &reason) && reason.find("where: <") == 0);
  CHECK(!holds("n:grid attr:shape c:4 ==", &reason) && reason == "where: no attribute shape");
  CHECK(!holds("n:shared c:1 ==", &reason) && reason == "where");
  CHECK(!holds("c:1 c:0 //", &reason) && !holds("==", &reason) && !holds("c:99999999999999999999", &reason));
  CHECK(!holds("n:grid item:3 c:1 ==", &reason) && reason == "where: no item 3");
  CHECK(!holds("c:9223372036854775807 c:1 +", &reason));
}
