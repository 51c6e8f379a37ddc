package projection

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vectorsWanted is what the golden vectors must hold, so that none is dropped
// silently: of each category how many at least, by the beginning of their
// names, how many of them refused, and some by name.
var vectorsWanted = []struct {
	file, category string
	prefixes       string
	least, refused int
	names          string
}{
	{
		"admit", "a limit at its bound and one over", "bytes- candidate- parts- depth- nodes- image-", 30, 15,
		"bytes-at bytes-over candidate-at candidate-over parts-at parts-over depth-at-arrays depth-over-arrays depth-at-objects depth-over-objects nodes-at nodes-over nodes-over-two-parts image-at image-one-byte-over ref-bytes-over ref-largest",
	},
	{
		"admit", "a field that is missing", "no- text-missing value-missing media-type-missing data-and-ref-missing ref-run-missing ref-name-missing ref-b3-missing ref-bytes-missing", 11, 11,
		"no-version no-status no-parts-field no-kind",
	},
	{"admit", "a field too many", "extra- text-extra text-with json-with image-with ref-extra", 12, 12, "extra-field-proto text-extra ref-extra"},
	{"admit", "a field of another type", "version-is status-is parts-is kind-is text-is media-type-is data-is ref-is ref-run-is ref-name-is ref-b3-is ref-bytes-is part-is whole-is", 60, 60, ""},
	{"admit", "base64", "base64-", 25, 21, "base64-stray-bits-one-pad base64-stray-bits-two-pads base64-url-alphabet base64-pad-missing base64-pad-too-many base64-line-break base64-blank"},
	{
		"admit", "a signature", "signature-", 20, 20,
		"signature-png-is-jpeg signature-png-is-gif signature-png-is-webp signature-jpeg-is-png signature-jpeg-is-gif signature-jpeg-is-webp signature-gif-is-png signature-gif-is-jpeg signature-gif-is-webp signature-webp-is-png signature-webp-is-jpeg signature-webp-is-gif signature-svg",
	},
	{"admit", "a reference to another run", "ref-other-run ref-run-", 4, 4, "ref-other-run"},
	{"decode", "a reference to another run", "run-", 15, 15, "run-other run-other-behind-own"},
	{"admit", "a name twice", "duplicate- value-duplicate", 12, 12, "value-duplicate-proto value-duplicate-escaped duplicate-ref-name"},
	{"decode", "a name twice", "value-duplicate", 1, 1, ""},
	{"admit", "a number", "number-", 27, 12, "number-2-53-1 number-1e-400 number-over-1e400 number-over-minus-1e400"},
	{"admit", "a surrogate by itself", "text-lone text-low-high text-high-high value-lone", 5, 0, "text-lone-high text-lone-low value-lone-surrogate-name"},
	{"admit", "a prototype", "value-proto", 1, 0, "value-proto"},
	{"decode", "a limit at its bound and one over", "admitted-bytes- admitted-parts- admitted-depth- admitted-nodes- bytes-over parts-over depth-over nodes-over", 15, 5, "admitted-nodes-at nodes-over"},
	{"decode", "what is not canonical", "blank- order name- kind- text- media-", 14, 14, ""},
}

// TestVectorsAreAllThere counts the golden vectors by category, in the files
// that another implementation reads.
func TestVectorsAreAllThere(t *testing.T) {
	files := map[string]map[string]bool{"admit": refusals(t, "admit"), "decode": refusals(t, "decode")}
	for _, w := range vectorsWanted {
		all, refused := 0, 0
		for name, no := range files[w.file] {
			for _, p := range strings.Fields(w.prefixes) {
				if !strings.HasPrefix(name, p) {
					continue
				}
				all++
				if no {
					refused++
				}
				break
			}
		}
		if all < w.least || refused < w.refused {
			t.Errorf("%s, %s: %d vectors, %d refused; want %d, %d", w.file, w.category, all, refused, w.least, w.refused)
		}
		for _, name := range strings.Fields(w.names) {
			if _, ok := files[w.file][name]; !ok {
				t.Errorf("%s, %s: there is no %s", w.file, w.category, name)
			}
		}
	}
}

// refusals are the vectors of a file by name, and whether they are refused.
func refusals(t *testing.T, file string) map[string]bool {
	t.Helper()
	f, err := os.Open(filepath.Join(vectorDir, file+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string]bool{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var v struct{ Name, Refused string }
		if err := json.Unmarshal(in.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		all[v.Name] = v.Refused != ""
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
