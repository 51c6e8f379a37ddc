package projection

import (
	"encoding/base64"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/zeebo/blake3"
)

func sorted(m map[string]string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// shows accepts an image with data; canonical is its type afterwards.
func (v *vectors) shows(name, media string, canonical MediaType, b64 string) {
	raw, err := base64.StdEncoding.Strict().DecodeString(b64)
	if err != nil {
		panic(name + ": " + err.Error())
	}
	d := Digest(blake3.Sum256(raw))
	v.ok(name, doc(image(media, data(b64))), doc(image(string(canonical), own(0, d.String(), int64(len(raw))))),
		vectorFile{Name: ".projection-7-0", MediaType: canonical, B3: d.String(), Bytes: int64(len(raw))})
}

// images is about media types and signatures.
func (v *vectors) images() {
	samples := []struct {
		media MediaType
		b64   []string
	}{
		{PNG, []string{png64}},
		{JPEG, []string{jpeg64, "/9j/4AAQSkZJRgABAQ=="}},
		{GIF, []string{gif87, gif89}},
		{WebP, []string{webp64}},
	}
	for _, s := range samples {
		short := strings.TrimPrefix(string(s.media), "image/")
		for i, b64 := range s.b64 {
			v.shows("image-"+short+"-"+string('a'+rune(i)), string(s.media), s.media, b64)
		}
		for _, other := range samples {
			if other.media != s.media {
				v.no("signature-"+short+"-is-"+strings.TrimPrefix(string(other.media), "image/"), WrongSignature, "parts[0].data",
					doc(image(string(s.media), data(other.b64[0]))))
			}
		}
	}
	v.shows("image-upper-case", "IMAGE/PNG", PNG, png64)
	v.shows("image-jpg", "image/jpg", JPEG, jpeg64)
	v.shows("image-escaped-slash", `image\/png`, PNG, png64)
	for name, media := range sorted(map[string]string{
		"svg": "image/svg+xml", "parameter": "image/png; charset=utf-8", "bmp": "image/bmp", "empty": "", "blank": " image/png",
		"html": "text/html", "wildcard": "image/*", "long": strings.Repeat("image/png", 100), "kelvin": "image/\u212apng", "heic": "image/heic",
	}) {
		v.no("media-type-"+name, BadMediaType, "parts[0].media_type", doc(image(media, data(png64))))
	}
	for name, b64 := range sorted(map[string]string{
		"png-short": "iVBORw0KGg==", "png-first-bit": "CVBORw0KGgo=", "png-line-ends": "iVBORwoaCgo=", "text": "aGVsbG8=", "svg": "PHN2Zz48L3N2Zz4=", "html": "PGh0bWw+",
	}) {
		v.no("signature-"+name, WrongSignature, "parts[0].data", doc(image("image/png", data(b64))))
	}
	v.no("signature-jpeg-short", WrongSignature, "parts[0].data", doc(image("image/jpeg", data("/9g="))))
	v.no("signature-gif-88", WrongSignature, "parts[0].data", doc(image("image/gif", data("R0lGODhh"))))
	v.no("signature-webp-wave", WrongSignature, "parts[0].data", doc(image("image/webp", data("UklGRgAAAABXQVZF"))))
	v.no("signature-webp-short", WrongSignature, "parts[0].data", doc(image("image/webp", data("UklGRgAAAABXRUI="))))
	v.no("signature-before-kind", WrongSignature, "parts[0].data", doc(`{"data":"aGVsbG8=","media_type":"image/png","kind":"image"}`))
	b3 := func(b64 string) string {
		raw, _ := base64.StdEncoding.DecodeString(b64)
		d := Digest(blake3.Sum256(raw))
		return d.String()
	}
	v.ok("image-twice", doc(image("image/png", data(png64)), ",", text("between"), ",", image("image/png", data(png64))),
		doc(image("image/png", own(0, b3(png64), 8)), ",", text("between"), ",", image("image/png", own(2, b3(png64), 8))),
		vectorFile{Name: ".projection-7-0", MediaType: PNG, B3: b3(png64), Bytes: 8},
		vectorFile{Name: ".projection-7-2", MediaType: PNG, B3: b3(png64), Bytes: 8})
	v.no("image-refused-behind-one", WrongSignature, "parts[1].data", doc(image("image/png", data(png64)), ",", image("image/png", data(jpeg64))))
}

// base64 is about its spellings: GIFs, as their bytes may end with anything.
func (v *vectors) base64() {
	v.shows("base64-no-padding", "image/gif", GIF, "R0lGODlh")
	v.shows("base64-one-pad", "image/gif", GIF, "R0lGODlhAAA=")
	v.shows("base64-two-pads", "image/gif", GIF, "R0lGODlhAA==")
	v.shows("base64-plus-slash", "image/gif", GIF, "R0lGODlh+/+/")
	for name, b64 := range sorted(map[string]string{
		"empty": "", "one": "R", "short": "R0lGODl", "pad-missing": "R0lGODlhAA", "pad-missing-one": "R0lGODlhAA=", "pad-too-many": "R0lGODlhA===",
		"pad-only": "====", "pad-behind": "R0lGODlh====", "pad-inside": "R0lGODlhAA==R0lG", "pad-early": "R0lGODlhA=AA", "stray-bits-two-pads": "R0lGODlhAB==", "stray-bits-high": "R0lGODlhAI==",
		"stray-bits-one-pad": "R0lGODlhAAB=", "url-alphabet": "R0lGODlh-_-_", "blank": "R0lG ODlh", "blank-at-end": "R0lGODlh ", "line-break": `R0lG\nODlh`,
		"escaped": `R0lGODlh\/+\/+`, "escaped-letter": `\u0052` + "0lGODlh", "not-ascii": "R0lGODlhé", "nul": `R0lGODl\u0000`, "data-url": "data:image/gif;base64,R0lGODlh", "star": "R0lGODl*",
	}) {
		v.no("base64-"+name, BadBase64, "parts[0].data", doc(image("image/gif", data(b64))))
	}
}

// references is about what the run has stored before.
func (v *vectors) references() {
	shot := strings.Repeat("ab", 32)
	v.ok("ref", doc(image("image/png", ref())), doc(image("image/png", own(0, shot, 4711))),
		vectorFile{Name: ".projection-7-0", MediaType: PNG, B3: shot, Bytes: 4711, From: "shot.png"})
	v.ok("ref-any-order", doc(`{"ref":{"bytes":4711,"b3":"`+shot+`","name":"shot\u002epng","run":"`+vectorRun+`"},"media_type":"image/png","kind":"image"}`),
		doc(image("image/png", own(0, shot, 4711))), vectorFile{Name: ".projection-7-0", MediaType: PNG, B3: shot, Bytes: 4711, From: "shot.png"})
	cd := strings.Repeat("cd", 32)
	v.ok("ref-largest", doc(image("image/jpeg", ref("name", `"größe 図.jpg"`, "b3", `"`+cd+`"`, "bytes", "5242880"))), doc(image("image/jpeg", own(0, cd, 5242880))),
		vectorFile{Name: ".projection-7-0", MediaType: JPEG, B3: cd, Bytes: 5242880, From: "größe 図.jpg"})
	tiny := strings.Repeat("01", 32)
	v.ok("ref-smallest", doc(image("image/jpeg", ref("name", `"tiny.jpg"`, "b3", `"`+tiny+`"`, "bytes", "3"))), doc(image("image/jpeg", own(0, tiny, 3))),
		vectorFile{Name: ".projection-7-0", MediaType: JPEG, B3: tiny, Bytes: 3, From: "tiny.jpg"})
	again := strings.Repeat("77", 32)
	v.ok("ref-to-an-artifact", doc(text("again"), ",", image("image/webp", ref("name", `".projection-3-0"`, "b3", `"`+again+`"`, "bytes", "64"))), doc(text("again"), ",", image("image/webp", own(1, again, 64))),
		vectorFile{Name: ".projection-7-1", MediaType: WebP, B3: again, Bytes: 64, From: ".projection-3-0"})

	at := func(field string) string { return "parts[0].ref." + field }
	bad := func(name string, code Code, field string, set ...string) {
		v.no("ref-"+name, code, at(field), doc(image("image/png", ref(set...))))
	}
	bad("other-run", OtherRun, "run", "run", `"`+otherRun+`"`)
	bad("run-empty", OtherRun, "run", "run", `""`)
	bad("run-upper-case", OtherRun, "run", "run", `"`+strings.ToUpper(vectorRun)+`"`)
	bad("run-longer", OtherRun, "run", "run", `"`+vectorRun+`0"`)
	bad("unknown-name", UnknownArtifact, "name", "name", `"no-such.png"`)
	bad("other-digest", OtherBytes, "b3", "b3", `"`+strings.Repeat("ac", 32)+`"`)
	bad("other-length", OtherBytes, "bytes", "bytes", "4712")
	bad("digest-of-another-name", OtherBytes, "b3", "name", `"page.svg"`)
	v.no("ref-signature", WrongSignature, "parts[0].media_type", doc(image("image/jpeg", ref())))
	v.no("ref-svg", WrongSignature, "parts[0].media_type", doc(image("image/png", ref("name", `"page.svg"`, "b3", `"`+strings.Repeat("ef", 32)+`"`, "bytes", "99"))))
	for _, field := range []string{"run", "name", "b3", "bytes"} {
		bad(field+"-missing", MissingField, field, field, "")
	}
	bad("extra", UnknownField, "mode", "mode", "1")
	bad("extra-source", UnknownField, "source", "source", `"named"`)
	for name, wrong := range sorted(wrongTypes("object")) {
		v.no("ref-is-"+name, WrongType, "parts[0].ref", doc(image("image/png", `"ref":`+wrong)))
	}
	for name, wrong := range sorted(wrongTypes("string")) {
		bad("run-is-"+name, WrongType, "run", "run", wrong)
		bad("name-is-"+name, WrongType, "name", "name", wrong)
		bad("b3-is-"+name, WrongType, "b3", "b3", wrong)
	}
	for name, wrong := range sorted(wrongTypes("number")) {
		bad("bytes-is-"+name, WrongType, "bytes", "bytes", wrong)
	}
	for name, n := range sorted(map[string]string{"zero": "0", "minus": "-1", "point": "4711.0", "exponent": "4.711e3", "minus-zero": "-0"}) {
		bad("bytes-"+name, BadLength, "bytes", "bytes", n)
	}
	bad("bytes-over", TooLarge, "bytes", "bytes", "5242881")
	bad("bytes-huge", TooLarge, "bytes", "bytes", strings.Repeat("9", 400))
	for name, n := range sorted(map[string]string{
		"empty": "", "dot": ".", "dots": "..", "proto": "__proto__", "constructor": "constructor", "prototype": "prototype", "slash": "a/b", "escaped-slash": `a\/b`,
		"nul": `a\u0000`, "delete": "a\u007f", "c1": "a\u0085", "line-break": `a\n`, "lone-surrogate": `\ud800`, "256-bytes": strings.Repeat("é", 128), "long": strings.Repeat("x", 5000),
	}) {
		bad("name-"+name, BadName, "name", "name", `"`+n+`"`)
	}
	bad("name-255-bytes", UnknownArtifact, "name", "name", `"`+strings.Repeat("é", 127)+`x"`)
	for name, d := range sorted(map[string]string{
		"upper-case": strings.Repeat("AB", 32), "short": strings.Repeat("ab", 31) + "a", "long": strings.Repeat("ab", 32) + "a", "not-hex": strings.Repeat("ag", 32), "empty": "", "prefixed": "b3:" + strings.Repeat("a", 61),
	}) {
		bad("b3-"+name, BadDigest, "b3", "b3", `"`+d+`"`)
	}
}

// limits has each limit at its bound, and one over.
func (v *vectors) limits() {
	room := BytesMax - len(doc(text()).join())
	v.as("bytes-at", doc(text(rep("a", room))))
	v.no("bytes-over", TooLarge, "parts[0]", doc(text(rep("a", room+1))))
	v.as("bytes-at-multibyte", doc(text("a", rep("é", room/2))))
	v.no("bytes-over-multibyte", TooLarge, "parts[0]", doc(text("ab", rep("é", room/2))))
	v.ok("bytes-at-escaped", doc(text(rep(`\u0061`, room))), doc(text(rep("a", room))))
	v.no("bytes-over-escaped", TooLarge, "parts[0]", doc(text(rep(`\u0061`, room+1))))
	v.as("bytes-at-controls", doc(text("a", rep(`\u0000`, room/6))))
	v.no("bytes-over-controls", TooLarge, "parts[0]", doc(text(rep(`\u0000`, room/6+1))))
	v.no("bytes-over-surrogates", TooLarge, "parts[0]", doc(text(rep(`\ud800`, room/6+1))))
	room = BytesMax - len(doc(value(`""`)).join())
	v.as("bytes-at-value", doc(value(`"`, rep("a", room), `"`)))
	v.no("bytes-over-value", TooLarge, "parts[0]", doc(value(`"`, rep("a", room+1), `"`)))
	v.ok("bytes-at-value-blanks", doc(value(rep(" ", 400_000), "[", rep("\n", 400_000), `"`, rep("a", room-2), `"`, rep(" ", 400_000), "]")), doc(value(`["`, rep("a", room-2), `"]`)))
	v.no("bytes-over-two-parts", TooLarge, "parts[1]", doc(text(rep("a", 200_000)), ",", text(rep("b", 100_000))))
	v.no("bytes-over-name", TooLarge, "parts[0]", doc(value(`{"`, rep("a", BytesMax), `":1}`)))

	// A reference counts as one of a run with the longest id.
	shown := doc(text(), ",", image("image/png", own(1, strings.Repeat("ab", 32), 4711))).join()
	room = BytesMax - len(shown) - (RunBytesMax - len(vectorRun))
	v.ok("bytes-at-ref", doc(text(rep("a", room)), ",", image("image/png", ref())), doc(text(rep("a", room)), ",", image("image/png", own(1, strings.Repeat("ab", 32), 4711))),
		vectorFile{Name: ".projection-7-1", MediaType: PNG, B3: strings.Repeat("ab", 32), Bytes: 4711, From: "shot.png"})
	v.no("bytes-over-ref", TooLarge, "parts[1]", doc(text(rep("a", room+1)), ",", image("image/png", ref())))

	pad := CandidateBytesMax - len(doc(text("a")).join())
	v.ok("candidate-at", join(doc(text("a")), rep(" ", pad)), doc(text("a")))
	v.no("candidate-over", TooLarge, "", doc(text("a")), rep(" ", pad+1))

	v.as("parts-at", doc(rep(`{"kind":"text","text":""},`, PartsMax-1), text()))
	v.no("parts-over", TooManyParts, "parts", doc(rep(`{"kind":"text","text":""},`, PartsMax), text()))
	v.no("parts-none", NoParts, "parts", doc())

	deep := func(open, inner, end string, n int) pieces { return doc(value(rep(open, n), inner, rep(end, n))) }
	v.as("depth-at-arrays", deep("[", "[]", "]", DepthMax-1))
	v.no("depth-over-arrays", TooDeep, "parts[0].value", deep("[", "[]", "]", DepthMax))
	v.as("depth-at-objects", deep(`{"a":`, "{}", "}", DepthMax-1))
	v.no("depth-over-objects", TooDeep, "parts[0].value", deep(`{"a":`, "{}", "}", DepthMax))
	v.as("depth-at-scalar", deep("[", "0", "]", DepthMax-1))
	v.no("depth-over-scalar", TooDeep, "parts[0].value", deep("[", "0", "]", DepthMax))
	v.no("depth-far-over", TooDeep, "parts[0].value", deep("[", "", "]", 1_000_000))
	v.no("depth-far-over-torn", TooDeep, "parts[0].value", `{"v":1,"status":"ok","parts":[{"kind":"json","value":`, rep("[", 3_000_000))

	nodes := func(n int) pieces { return value("[", rep("0,", n-2), "0]") }
	v.as("nodes-at", doc(nodes(NodesMax)))
	v.no("nodes-over", TooManyNodes, "parts[0].value", doc(nodes(NodesMax+1)))
	v.as("nodes-at-two-parts", doc(nodes(NodesMax/2), ",", nodes(NodesMax/2)))
	v.no("nodes-over-two-parts", TooManyNodes, "parts[1].value", doc(nodes(NodesMax/2), ",", nodes(NodesMax/2+1)))
	v.as("nodes-at-empty", doc(value("[", rep("[],", NodesMax-2), "{}]")))
	v.no("nodes-over-far", TooManyNodes, "parts[0].value", doc(nodes(10_000_000)))

	largest := func(end string, units int) pieces {
		return doc(image("image/jpeg", data("/9j/", rep("AAAA", units), end)))
	}
	units := ImageBase64Max/4 - 2
	raw := make([]byte, ImageBytesMax)
	copy(raw, "\xff\xd8\xff")
	d := Digest(blake3.Sum256(raw))
	v.ok("image-at", largest("AAA=", units), doc(image("image/jpeg", own(0, d.String(), ImageBytesMax))),
		vectorFile{Name: ".projection-7-0", MediaType: JPEG, B3: d.String(), Bytes: ImageBytesMax})
	v.no("image-one-byte-over", TooLarge, "parts[0].data", largest("AAAA", units))
	v.no("image-over", TooLarge, "parts[0].data", largest("AA==", units+1))
	v.no("image-over-not-base64", TooLarge, "parts[0].data", doc(image("image/jpeg", data(rep("*", ImageBase64Max+1)))))
}

// join is the text of pieces that hold no bytes in hex.
func (p pieces) join() string {
	var b strings.Builder
	for _, piece := range p {
		switch piece := piece.(type) {
		case string:
			b.WriteString(piece)
		case repeated:
			b.WriteString(strings.Repeat(piece.Repeat, piece.Times))
		}
	}
	return b.String()
}
