package projection

import "strings"

// decodeVectors are about the durable form: everything that an admission gives
// is accepted, and nothing that is written in another way.
func decodeVectors() []vector {
	v := &vectors{}
	for _, a := range admitVectors() {
		if a.Refused == "" {
			v.list = append(v.list, vector{Name: "admitted-" + a.Name, In: a.Out})
		}
	}
	v.spellings()
	v.ownership()
	return v.list
}

func (v *vectors) spellings() {
	one := text("hi")
	png := image("image/png", own(0, strings.Repeat("ab", 32), 8))
	v.no("blank-first", NotCanonical, "", " ", doc(one))
	v.no("blank-last", NotCanonical, "", doc(one), "\n")
	v.no("blank-inside", NotCanonical, "", `{"v":1, "status":"ok","parts":[`, one, `]}`)
	v.no("blank-in-value", NotCanonical, "parts[0]", doc(value("[1, 2]")))
	v.no("order", NotCanonical, "", `{"status":"ok","v":1,"parts":[`, one, `]}`)
	v.no("order-in-text", NotCanonical, "", doc(`{"text":"hi","kind":"text"}`))
	v.no("order-in-image", NotCanonical, "", doc(`{"media_type":"image/png","kind":"image",`, own(0, strings.Repeat("ab", 32), 8), `}`))
	v.no("order-in-ref", NotCanonical, "", doc(image("image/png", `"ref":{"name":"a","run":"`+vectorRun+`","b3":"`+strings.Repeat("ab", 32)+`","bytes":8}`)))
	v.no("name-escaped", NotCanonical, "", `{"\u0076":1,"status":"ok","parts":[`, one, `]}`)
	v.no("kind-escaped", NotCanonical, "", doc(`{"kind":"\u0074ext","text":"hi"}`))
	v.no("text-escaped", NotCanonical, "parts[0]", doc(text(`\u0068i`)))
	v.no("text-slash", NotCanonical, "parts[1]", doc(one, ",", text(`a\/b`)))
	v.no("text-pair", NotCanonical, "parts[0]", doc(text(`\ud83d\ude00`)))
	v.no("text-upper-hex", NotCanonical, "parts[0]", doc(text(`\u001F`)))
	v.no("text-long-escape", NotCanonical, "parts[0]", doc(text(`\u000a`)))
	v.no("text-lone-upper", NotCanonical, "parts[0]", doc(text(`\uD800`)))
	v.no("media-type-upper", NotCanonical, "", doc(image("image/PNG", own(0, strings.Repeat("ab", 32), 8))))
	v.no("media-type-jpg", NotCanonical, "", doc(image("image/jpg", own(0, strings.Repeat("ab", 32), 8))))
	v.no("ref-name-escaped", NotCanonical, "", doc(image("image/png", strings.Replace(own(0, strings.Repeat("ab", 32), 8), ".proj", `\u002eproj`, 1))))
	v.as("ref-name-quote", doc(image("image/png", strings.Replace(own(0, strings.Repeat("ab", 32), 8), ".proj", `\"\\`, 1))))
	v.as("ref-named", doc(image("image/png", ref())))
	v.no("data", UnknownField, "parts[0].data", doc(image("image/png", data(png64))))
	v.no("data-before-kind", UnknownField, "parts[0].data", doc(`{"data":"`+png64+`","kind":"image","media_type":"image/png"}`))
	v.no("ref-leading-zero", BadLength, "parts[0].ref.bytes", doc(image("image/png", ref("bytes", "04711"))))
	v.no("ref-exponent", BadLength, "parts[0].ref.bytes", doc(image("image/png", ref("bytes", "1e3"))))
	v.no("value-duplicate", DuplicateName, "parts[0].value", doc(value(`{"a":1,"a":2}`)))
	v.no("value-not-finite", NotFinite, "parts[0].value", doc(value("1e999")))
	v.no("two", TrailingBytes, "", doc(one), doc(one))
	v.no("sentinel-blank", UnknownField, "code", Sentinel, " ")
	v.no("empty", NotJSON, "")
	v.as("every-kind", doc(text("a"), ",", value("[]"), ",", png, ",", text("b")))
	v.no("bytes-over", TooLarge, "", doc(text(rep("a", BytesMax))))
	v.no("bytes-over-blanks", TooLarge, "", doc(one), rep(" ", BytesMax))
	v.no("parts-over", TooManyParts, "parts", doc(rep(`{"kind":"text","text":""},`, PartsMax), text()))
	v.no("depth-over", TooDeep, "parts[0].value", doc(value(rep("[", DepthMax+1), rep("]", DepthMax+1))))
	v.no("nodes-over", TooManyNodes, "parts[0].value", doc(value("[", rep("0,", NodesMax-1), "0]")))
	room := BytesMax - len(doc(png, ",", text()).join()) - (RunBytesMax - len(vectorRun))
	v.as("bytes-at-ref", doc(png, ",", text(rep("a", room))))
	v.no("bytes-over-ref", TooLarge, "parts[1]", doc(png, ",", text(rep("a", room+1))))
}

// ownership: no reference to another run's artifact rides in.
func (v *vectors) ownership() {
	for name, run := range sorted(map[string]string{
		"other": otherRun, "empty": "", "shorter": vectorRun[:35], "longer": vectorRun + "0", "upper-case": strings.ToUpper(vectorRun),
		"exec": "exec_a", "wildcard": "*", "path": "../" + vectorRun,
	}) {
		v.no("run-"+name, OtherRun, "parts[0].ref.run", doc(image("image/png", ref("run", `"`+run+`"`))))
		v.no("run-"+name+"-behind-own", OtherRun, "parts[1].ref.run", doc(image("image/png", ref()), ",", image("image/png", ref("run", `"`+run+`"`))))
	}
	v.no("run-escaped", NotCanonical, "", doc(image("image/png", ref("run", `"\u0030`+vectorRun[1:]+`"`))))
}
