package runs

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"durafs/internal/clock"
)

// Bounds of names and labels.
const (
	NameBytesMax       = 255
	LabelBytesMax      = 256 // of a label's value
	LabelsMax          = 64
	BindingBytesMax    = 256 // of each of a binding's strings
	execSuffixBytesMax = 64
	uuidBytes          = 36
)

// ParseID checks an id. Every run has one spelling, so nothing is normalised:
// what is not exactly a lower-case UUID (not the nil one) or exec_ with 1 to
// 64 of [A-Za-z0-9_-] is refused with bad-id.
func ParseID(id string) (string, error) {
	if isUUID(id) || isExecID(id) {
		return id, nil
	}
	r := refuse(BadID, "%s is no run id", quote(id))
	r.Field = "id"
	return "", r
}

func isUUID(s string) bool {
	if len(s) != uuidBytes {
		return false
	}
	zero := true
	for i := range len(s) {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
				return false
			}
			zero = zero && c == '0'
		}
	}
	return !zero
}

func isExecID(s string) bool {
	rest, ok := strings.CutPrefix(s, "exec_")
	if !ok || len(rest) < 1 || len(rest) > execSuffixBytesMax {
		return false
	}
	for i := range len(rest) {
		c := rest[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// newID makes a UUIDv7: 48 bits of milliseconds, then random ones.
func newID(c clock.Clock) string {
	var u [16]byte
	must(rand.Read(u[:]))
	binary.BigEndian.PutUint64(u[:8], uint64(c.Now().UnixMilli())<<16|uint64(u[6])<<8|uint64(u[7]))
	u[6] = u[6]&0x0f | 0x70
	return formatUUID(u)
}

// newBootID makes a UUIDv4: random.
func newBootID() string {
	var u [16]byte
	must(rand.Read(u[:]))
	u[6] = u[6]&0x0f | 0x40
	return formatUUID(u)
}

// formatUUID sets the variant and writes u as text.
func formatUUID(u [16]byte) string {
	u[8] = u[8]&0x3f | 0x80
	return uuidText(u[:])
}

func uuidText(u []byte) string {
	var b [uuidBytes]byte
	hex.Encode(b[0:8], u[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], u[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], u[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], u[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], u[10:16])
	return string(b[:])
}

// must is for the kernel's random source, which does not fail.
func must(_ int, err error) {
	if err != nil {
		panic("runs: random source: " + err.Error())
	}
}

// goodName is the rule for all names but ids: it says what is wrong, or "".
func goodName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > NameBytesMax:
		return "is longer than 255 bytes"
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case strings.ContainsRune(name, '/'):
		return "holds a slash"
	}
	switch name {
	case ".", "..", "__proto__", "constructor", "prototype":
		return "is reserved"
	}
	for _, r := range name {
		if r < 0x20 || 0x7f <= r && r < 0xa0 {
			return "holds a control character"
		}
	}
	return ""
}

func checkPayloadName(name string) error {
	bad := goodName(name)
	if bad == "" && name[0] == '.' {
		bad = "begins with a dot"
	}
	return badName("payload name", name, bad)
}

func badName(field, name, bad string) error {
	if bad == "" {
		return nil
	}
	r := refuse(BadName, "the %s %s %s", field, quote(name), bad)
	r.Field, r.Size, r.Limit = field, int64(len(name)), NameBytesMax
	return r
}

func checkLabels(labels Labels) error {
	if len(labels) > LabelsMax {
		r := refuse(BadLabel, "the run has %d labels, and the limit is %d", len(labels), LabelsMax)
		r.Field, r.Size, r.Limit = "labels", int64(len(labels)), LabelsMax
		return r
	}
	for _, k := range labels.names() {
		if bad := badLabel(k, labels[k]); bad != "" {
			r := refuse(BadLabel, "the label %s %s", quote(k), bad)
			r.Field, r.Size, r.Limit = "labels", int64(len(labels[k])), LabelBytesMax
			return r
		}
	}
	return nil
}

func badLabel(k, v string) string {
	if bad := goodName(k); bad != "" {
		return bad
	}
	switch {
	case len(v) > LabelBytesMax:
		return "has a value of more than 256 bytes"
	case !utf8.ValidString(v):
		return "has a value that is not valid UTF-8"
	case k == "thread":
		if bad := goodName(v); bad != "" {
			return "names a thread whose name " + bad
		}
	}
	return ""
}

func checkBinding(b *Binding) error {
	if b == nil {
		return nil
	}
	for _, f := range []struct{ name, value string }{
		{"provider", b.Provider}, {"model", b.Model}, {"scope", b.Scope},
	} {
		if len(f.value) > BindingBytesMax || !utf8.ValidString(f.value) {
			r := refuse(BadBinding, "the binding's %s has %d bytes, or is not valid UTF-8", f.name, len(f.value))
			r.Field, r.Size, r.Limit = "binding."+f.name, int64(len(f.value)), BindingBytesMax
			return r
		}
	}
	return nil
}

// quote shows a name of any bytes and length in a message.
func quote(s string) string {
	const shownBytesMax = 80
	if len(s) > shownBytesMax {
		return quoteASCII(s[:shownBytesMax]) + "…"
	}
	return quoteASCII(s)
}

func quoteASCII(s string) string { return strconv.QuoteToASCII(s) }
