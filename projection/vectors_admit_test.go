package projection

import (
	"fmt"
	"strings"
)

// vectorPayloads are what the vectors' run has stored.
var vectorPayloads = []vectorFile{
	{Name: "shot.png", B3: strings.Repeat("ab", 32), Bytes: 4711, Head: "89504e470d0a1a0a0000000d"},
	{Name: "größe 図.jpg", B3: strings.Repeat("cd", 32), Bytes: 5242880, Head: "ffd8ffe000104a4649460001"},
	{Name: "tiny.jpg", B3: strings.Repeat("01", 32), Bytes: 3, Head: "ffd8ff"},
	{Name: "page.svg", B3: strings.Repeat("ef", 32), Bytes: 99, Head: "3c73766720786d6c6e733d22"},
	{Name: ".projection-3-0", B3: strings.Repeat("77", 32), Bytes: 64, Head: "524946463800000057454250"},
}

// vectors collects a table.
type vectors struct{ list []vector }

func (v *vectors) ok(name string, in, out pieces, files ...vectorFile) {
	v.list = append(v.list, vector{Name: name, In: in, Out: out, Artifacts: files})
}

// as accepts a text as it is.
func (v *vectors) as(name string, parts ...any) { v.ok(name, join(parts...), join(parts...)) }

func (v *vectors) no(name string, code Code, path string, parts ...any) {
	v.list = append(v.list, vector{Name: name, In: join(parts...), Refused: code, Path: path})
}

// Around parts, a text, a value, an image.
func doc(parts ...any) pieces {
	return join(`{"v":1,"status":"ok","parts":[`, join(parts...), `]}`)
}

func text(literal ...any) pieces {
	return join(`{"kind":"text","text":"`, join(literal...), `"}`)
}

func value(v ...any) pieces { return join(`{"kind":"json","value":`, join(v...), `}`) }

func image(media string, rest ...any) pieces {
	return join(`{"kind":"image","media_type":"`+media+`",`, join(rest...), `}`)
}

func data(b64 ...any) pieces { return join(`"data":"`, join(b64...), `"`) }

// ref is a reference; set changes one of its fields, "" leaves it out.
func ref(set ...string) string {
	names := []string{"run", "name", "b3", "bytes"}
	fields := map[string]string{
		"run": `"` + vectorRun + `"`, "name": `"shot.png"`, "b3": `"` + strings.Repeat("ab", 32) + `"`, "bytes": "4711",
	}
	for i := 0; i+1 < len(set); i += 2 {
		if fields[set[i]] == "" {
			names = append(names, set[i])
		}
		fields[set[i]] = set[i+1]
	}
	var list []string
	for _, n := range names {
		if fields[n] != "" {
			list = append(list, `"`+n+`":`+fields[n])
		}
	}
	return `"ref":{` + strings.Join(list, ",") + `}`
}

// own is the reference to the artifact of a part.
func own(part int, b3 string, bytes int64) string {
	return fmt.Sprintf(`"ref":{"run":"%s","name":".projection-7-%d","b3":"%s","bytes":%d}`, vectorRun, part, b3, bytes)
}

// The smallest of each kind that has its signature, and their digests.
const (
	png64, jpeg64 = "iVBORw0KGgo=", "/9j/"
	gif87, gif89  = "R0lGODdh", "R0lGODlh"
	webp64        = "UklGRgAAAABXRUJQ"
)

// wrongTypes are values of each JSON type but one.
func wrongTypes(but string) map[string]string {
	types := map[string]string{
		"object": "{}", "array": "[]", "string": `"x"`, "number": "3", "true": "true", "null": "null",
	}
	delete(types, but)
	return types
}

func admitVectors() []vector {
	v := &vectors{}
	v.shape()
	v.parts()
	v.texts()
	v.values()
	v.numbers()
	v.images()
	v.base64()
	v.references()
	v.limits()
	return v.list
}

// shape is about the whole.
func (v *vectors) shape() {
	one := text("hi")
	v.as("plain", doc(one))
	v.as("status-error", `{"v":1,"status":"error","parts":[`, one, `]}`)
	v.ok("blanks", join(" \t\r\n{ \"v\" : 1 , \"status\":\"ok\",\n\"parts\" :[ ", `{ "kind" : "text" , "text" : "hi" }`, " ] } \n"), doc(one))
	v.ok("any-order", join(`{"parts":[{"text":"hi","kind":"text"}],"status":"ok","v":1}`), doc(one))
	v.ok("names-escaped", join(`{"\u0076":1,"st\u0061tus":"\u006fk","parts":[{"k\u0069nd":"t\u0065xt","text":"hi"}]}`), doc(one))
	v.as("sentinel", Sentinel)
	v.no("sentinel-with-blank", UnknownField, "code", Sentinel[:len(Sentinel)-1], " }")
	v.no("sentinel-line-break", UnknownField, "code", Sentinel, "\n")
	v.no("sentinel-other-text", UnknownField, "code", strings.Replace(Sentinel, "tool ran", "tool Ran", 1))
	v.no("sentinel-status-ok", UnknownField, "code", strings.Replace(Sentinel, `"error"`, `"ok"`, 1))
	v.as("sentinel-without-code", strings.Replace(Sentinel, `"code":"projection-failed",`, "", 1))
	v.no("code-other", UnknownField, "code", `{"v":1,"status":"error","code":"x","parts":[`, one, `]}`)

	v.no("empty", NotJSON, "")
	v.no("blank", NotJSON, "", " ")
	v.no("torn", NotJSON, "parts", `{"v":1,"status":"ok","parts":[{"kind":"text","text":"hi"}`)
	v.no("torn-in-string", NotJSON, "parts[0].text", `{"v":1,"status":"ok","parts":[{"kind":"text","text":"hi`)
	v.no("torn-in-name", NotJSON, "", `{"v":1,"status`)
	v.no("trailing-bytes", TrailingBytes, "", doc(one), "x")
	v.no("trailing-value", TrailingBytes, "", doc(one), doc(one))
	v.no("byte-order-mark", NotJSON, "", "\ufeff", doc(one))
	v.no("comma-at-end", NotJSON, "", `{"v":1,"status":"ok","parts":[`, one, `],}`)
	v.no("comma-in-parts", NotJSON, "parts[1]", `{"v":1,"status":"ok","parts":[`, one, `,]}`)
	v.no("comment", NotJSON, "", `/**/`, doc(one))
	v.no("nul-behind", TrailingBytes, "", doc(one), "\x00")
	v.no("not-utf8", NotUTF8, "", `{"v":1,"status":"ok","parts":[{"kind":"text","text":"`, hexed{"ff"}, `"}]}`)
	v.no("utf8-overlong", NotUTF8, "", doc(text(hexed{"c0af"})))
	v.no("utf8-surrogate", NotUTF8, "", doc(text(hexed{"eda080"})))
	v.no("utf8-torn", NotUTF8, "", doc(text(hexed{"e282"})))
	for name, wrong := range sorted(wrongTypes("object")) {
		v.no("whole-is-"+name, WrongType, "", wrong)
	}
	v.no("no-version", MissingField, "v", `{"status":"ok","parts":[`, one, `]}`)
	v.no("no-status", MissingField, "status", `{"v":1,"parts":[`, one, `]}`)
	v.no("no-parts-field", MissingField, "parts", `{"v":1,"status":"ok"}`)
	v.no("nothing", MissingField, "v", `{}`)
	v.no("extra-field", UnknownField, "extra", `{"v":1,"extra":1,"status":"ok","parts":[`, one, `]}`)
	v.no("extra-field-proto", UnknownField, "__proto__", `{"v":1,"__proto__":{},"status":"ok","parts":[`, one, `]}`)
	v.no("extra-field-case", UnknownField, "V", `{"V":1,"status":"ok","parts":[`, one, `]}`)
	v.no("extra-field-empty", UnknownField, `""`, `{"":1,"status":"ok","parts":[`, one, `]}`)
	v.no("extra-field-long", UnknownField, strings.Repeat("x", 32)+"…", `{"`, rep("x", 100_000), `":1}`)
	v.no("duplicate-version", DuplicateName, "v", `{"v":1,"v":1,"status":"ok","parts":[`, one, `]}`)
	v.no("duplicate-parts", DuplicateName, "parts", `{"v":1,"parts":[`, one, `],"status":"ok","parts":[`, one, `]}`)
	v.no("duplicate-escaped", DuplicateName, "v", `{"v":1,"\u0076":1,"status":"ok","parts":[`, one, `]}`)
	for _, version := range []string{"0", "2", "-1", "1.0", "1e0", "10", "1.5"} {
		v.no("version-"+version, UnknownVersion, "v", `{"v":`+version+`,"status":"ok","parts":[`, one, `]}`)
	}
	v.no("version-01", UnknownVersion, "v", `{"v":01,"status":"ok","parts":[`, one, `]}`)
	for name, wrong := range sorted(wrongTypes("number")) {
		v.no("version-is-"+name, WrongType, "v", `{"v":`+wrong+`,"status":"ok","parts":[`, one, `]}`)
	}
	for name, wrong := range sorted(wrongTypes("string")) {
		v.no("status-is-"+name, WrongType, "status", `{"v":1,"status":`+wrong+`,"parts":[`, one, `]}`)
	}
	for _, status := range []string{"", "OK", "okay", "unknown"} {
		v.no("status-"+status, UnknownStatus, "status", `{"v":1,"status":"`+status+`","parts":[`, one, `]}`)
	}
	for name, wrong := range sorted(wrongTypes("array")) {
		v.no("parts-is-"+name, WrongType, "parts", `{"v":1,"status":"ok","parts":`+wrong+`}`)
	}
}

// parts is about the fields of each kind.
func (v *vectors) parts() {
	for name, wrong := range sorted(wrongTypes("object")) {
		v.no("part-is-"+name, WrongType, "parts[1]", doc(text("a"), ",", wrong))
	}
	for name, wrong := range sorted(wrongTypes("string")) {
		v.no("kind-is-"+name, WrongType, "parts[0].kind", doc(`{"kind":`+wrong+`}`))
		v.no("text-is-"+name, WrongType, "parts[0].text", doc(`{"kind":"text","text":`+wrong+`}`))
		v.no("media-type-is-"+name, WrongType, "parts[0].media_type", doc(`{"kind":"image","media_type":`+wrong+`,`, data(png64), `}`))
		v.no("data-is-"+name, WrongType, "parts[0].data", doc(`{"kind":"image","media_type":"image/png","data":`+wrong+`}`))
	}
	v.no("part-empty", MissingField, "parts[0].kind", doc(`{}`))
	v.no("no-kind", MissingField, "parts[0].kind", doc(`{"text":"a"}`))
	for _, kind := range []string{"", "Text", "file", "audio", "texts"} {
		v.no("kind-"+kind, UnknownKind, "parts[0].kind", doc(`{"kind":"`+kind+`","text":"a"}`))
	}
	v.no("text-missing", MissingField, "parts[0].text", doc(`{"kind":"text"}`))
	v.no("value-missing", MissingField, "parts[0].value", doc(`{"kind":"json"}`))
	v.no("media-type-missing", MissingField, "parts[0].media_type", doc(`{"kind":"image",`, data(png64), `}`))
	v.no("data-and-ref-missing", MissingField, "parts[0].ref", doc(`{"kind":"image","media_type":"image/png"}`))
	v.no("data-and-ref", UnknownField, "parts[0].data", doc(image("image/png", data(png64), ",", ref())))
	v.no("text-extra", UnknownField, "parts[0].lang", doc(`{"kind":"text","text":"a","lang":"go"}`))
	v.no("text-with-value", UnknownField, "parts[0].value", doc(`{"kind":"text","text":"a","value":1}`))
	v.no("text-with-value-before-kind", UnknownField, "parts[0].value", doc(`{"value":1,"text":"a","kind":"text"}`))
	v.no("json-with-text", UnknownField, "parts[0].text", doc(`{"kind":"json","value":1,"text":"a"}`))
	v.no("json-with-media-type", UnknownField, "parts[0].media_type", doc(`{"kind":"json","value":1,"media_type":"image/png"}`))
	v.no("image-with-text", UnknownField, "parts[0].text", doc(image("image/png", data(png64), `,"text":"a"`)))
	v.no("image-with-alt", UnknownField, "parts[0].alt", doc(image("image/png", data(png64), `,"alt":"a"`)))
	v.no("duplicate-kind", DuplicateName, "parts[0].kind", doc(`{"kind":"text","kind":"text","text":"a"}`))
	v.no("duplicate-text", DuplicateName, "parts[0].text", doc(`{"kind":"text","text":"a","text":"b"}`))
	v.no("duplicate-ref-name", DuplicateName, "parts[0].ref.name", doc(image("image/png", `"ref":{"name":"a","name":"b"}`)))
}

// texts is about strings.
func (v *vectors) texts() {
	v.as("text-empty", doc(text("")))
	v.as("text-unicode", doc(text("größe 図 😀 \u2028\u2029\u0085\u007f\ufeff\ufffd")))
	v.as("text-escapes", doc(text(`\"\\\b\f\n\r\t\u0000\u001f`)))
	v.as("text-lone-high", doc(text(`a\ud800b`)))
	v.as("text-lone-low", doc(text(`\udc00`)))
	v.as("text-low-high", doc(text(`\udc00\ud800`)))
	v.as("text-high-high-low", doc(text(`\ud800😀`)))
	v.ok("text-escapes-needless", doc(text(`\/\u0041\u00e9\u2028\u007f\ud83d\ude00\uFFFD`)), doc(text("/Aé\u2028\u007f😀\ufffd")))
	v.ok("text-escapes-long", doc(text(`\u0022\u005c\u0008\u000C\u000a\u000D\u0009\u001F`)), doc(text(`\"\\\b\f\n\r\t\u001f`)))
	v.ok("text-lone-upper", doc(text(`\uD800\uDFFF\uDBFF`)), doc(text("\U000103ff", `\udbff`)))
	v.no("text-line-break", NotJSON, "parts[0].text", doc(text("a\nb")))
	v.no("text-control", NotJSON, "parts[0].text", doc(text("\x1f")))
	v.no("text-escape-unknown", NotJSON, "parts[0].text", doc(text(`\x41`)))
	v.no("text-escape-torn", NotJSON, "parts[0].text", doc(text(`\u00g0`)))
	v.no("text-single-quotes", NotJSON, "parts[0].text", doc(`{"kind":"text","text":'a'}`))
}

// values is about the values of json parts.
func (v *vectors) values() {
	for name, val := range sorted(map[string]string{
		"null": "null", "true": "true", "false": "false", "string": `"a"`, "empty-object": "{}", "empty-array": "[]",
		"nested": `{"a":[1,{"b":[null,"x",{}]}],"c":""}`, "proto": `{"__proto__":{"constructor":1},"prototype":2}`,
		"escapes-kept": `{"\u0061":"\u0041\/\ud83d\ude00\ud800"}`, "lone-surrogate-name": `{"\ud800":1,"\udc00":2}`,
		"name-order-kept": `{"b":1,"a":2,"10":3,"9":4}`, "empty-name": `{"":1}`, "case-differs": `{"a":1,"A":2}`,
		"blank-in-string": `" a \t b "`, "line-separator": "\"\u2028\"",
		"unnormalised-names": "{\"\u00e9\":1,\"e\u0301\":2}",
	}) {
		v.as("value-"+name, doc(value(val)))
	}
	v.ok("value-blanks", doc(value(" { \"a b\" : [ 1 ,\t2 ] ,\n\"c\":{ } , \"d\": [ ]\r} ")), doc(value(`{"a b":[1,2],"c":{},"d":[]}`)))
	v.no("value-duplicate", DuplicateName, "parts[0].value", doc(value(`{"a":1,"a":1}`)))
	v.no("value-duplicate-deep", DuplicateName, "parts[1].value", doc(text("x"), ",", value(`[{"b":{"a":1,"c":2,"a":1}}]`)))
	v.no("value-duplicate-escaped", DuplicateName, "parts[0].value", doc(value(`{"a":1,"\u0061":1}`)))
	v.no("value-duplicate-surrogate", DuplicateName, "parts[0].value", doc(value(`{"\ud800":1,"\uD800":1}`)))
	v.no("value-duplicate-pair", DuplicateName, "parts[0].value", doc(value(`{"😀":1,"\ud83d\ude00":1}`)))
	v.no("value-duplicate-proto", DuplicateName, "parts[0].value", doc(value(`{"__proto__":1,"__proto__":1}`)))
	v.no("value-duplicate-of-many", DuplicateName, "parts[0].value", doc(value(`{"a":0,"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7,"i":8,"j":9,"k":10,"\u0063":11}`)))
	v.as("value-same-name-apart", doc(value(`[{"a":{"a":1}},{"a":1}]`)))
	for name, bad := range sorted(map[string]string{
		"word": "nul", "undefined": "undefined", "upper-case": "True", "nan": "NaN", "infinity": "Infinity", "minus-infinity": "-Infinity",
		"comma": "[1,]", "no-comma": "[1 2]", "no-colon": `{"a" 1}`, "name-no-string": `{a:1}`, "name-number": `{1:1}`,
		"torn-array": "[1", "brackets": "[}", "control": "\"\x01\"", "empty": "", "comma-object": `{"a":1,}`, "leading-zero": "01",
		"plus": "+1", "point-first": ".5", "point-last": "1.", "exponent-empty": "1e", "exponent-sign": "1e+", "minus": "-", "hex": "0x10",
	}) {
		v.no("value-bad-"+name, NotJSON, "parts[0].value", doc(value(bad)))
	}
}

// numbers are kept to the last digit.
func (v *vectors) numbers() {
	half := infinite
	below := half[:len(half)-1] + string(half[len(half)-1]-1) // its last digit is not 0
	for name, n := range sorted(map[string]string{
		"0": "0", "minus-0": "-0", "2-53-1": "9007199254740993", "long": "123456789012345678901234567890.123456789012345678901234567890",
		"1e-400": "1e-400", "tiny": "-0.0000001E-99999999999999999999", "exponents": "[1e5,1E5,1e+5,1E-5,1.50e05]", "1e308": "1e308",
		"max": "1.7976931348623157e308", "rounds-down": "1.797693134862315807e308", "below-infinite": below,
		"zero-large-exponent": "0e999999999999", "zero-point-large-exponent": "-0.000e400", "small-mantissa": "0.00000000001e319",
		"309-digits": "1" + strings.Repeat("0", 308),
	}) {
		v.as("number-"+name, doc(value(n)))
	}
	for name, n := range sorted(map[string]string{
		"1e400": "1e400", "minus-1e400": "-1e400", "1e309": "1e309", "infinite": half, "infinite-point": half[:1] + "." + half[1:] + "E+308",
		"above": "1.7976931348623159e308", "310-digits": "1" + strings.Repeat("0", 309), "exponent-long": "1e" + strings.Repeat("9", 40),
		"in-array": "[1,{\"a\":-1.0e+999}]", "small-mantissa-over": "0.0001e313", "infinite-and-more": half + ".0001",
	}) {
		v.no("number-over-"+name, NotFinite, "parts[0].value", doc(value(n)))
	}
	v.as("number-many-digits", doc(value("0.", rep("123456789", 20_000))))
	v.no("number-many-digits-over", NotFinite, "parts[0].value", doc(value("1", rep("0", 100_000))))
}
