// Package projection holds the one durable, provider-neutral form in which a
// tool's result is shown to a model.
//
// # The idea
//
// A model sees a tool's result several times: at once, in the next turn, after
// a restart. If each time it is made anew, it differs: another version of the
// code, another limit, an image that is gone. So it is made once, committed in
// the same batch as the outcome, and from then on only read. This package says
// what such a projection is, and turns what a tool sends (a candidate) into one
// or refuses it.
//
//	{"v":1,"status":"ok","parts":[
//	  {"kind":"text","text":"3 files changed"},
//	  {"kind":"json","value":{"files":3,"id":9007199254740993}},
//	  {"kind":"image","media_type":"image/png","ref":
//	    {"run":"0196…","name":".projection-7-2","b3":"af13…","bytes":4711}}]}
//
// The durable form has one spelling, the canonical one: these names in this
// order, no blanks, strings as JSON.stringify prints them. The value of a json
// part is the tool's own text, compacted and otherwise kept: numbers of any
// length, escapes, the order of names. [Encode] and [Decode] are inverse to each
// other in both directions:
//
//	Decode(Encode(p)) == p    Encode(Decode(b)) == b
//
// A candidate may have blanks and any order of names, and its images carry
// their bytes as base64 or name a payload of the run. [Admit] makes of it the
// durable form and says which artifacts belong to it.
//
// # Bounds
//
// Everything has a limit, and each is checked before memory is taken for what
// it limits: a refusal allocates its error, whatever was sent.
//
// They bound structure and resources, not content: nothing here looks for
// secrets in what a tool says.
//
// # Ownership
//
// A reference belongs to one run. That run's id is an argument of everything
// that encodes, decodes or admits, and a reference to another's is refused
// there. Nothing is ever found by a digest that a caller gave.
//
// The package is pure: no files, no clock, no network. What it needs of a store
// it is given as functions.
package projection

import "encoding/hex"

// Version is the version of the form.
const Version = 1

// Bounds. A json value's root has depth 1; nodes are all values of all json
// parts together, names not counted.
const (
	BytesMax          = 256 << 10 // of a projection, in its durable form
	CandidateBytesMax = 32 << 20  // of a candidate's line
	PartsMax          = 64
	DepthMax          = 32
	NodesMax          = 20_000
	ImageBytesMax     = 5 << 20   // decoded
	ImageBase64Max    = 6_990_508 // ImageBytesMax in base64
	NameBytesMax      = 255       // of a reference's name

	// RunBytesMax is the length of the longest id of a run. Against BytesMax a
	// reference counts as if its run had such an id: so a copy of the projection
	// under any other id fits too.
	RunBytesMax = 69
)

// Sentinel stands for a projection that could not be made: the tool ran, and
// what it did is recorded, but its result cannot be shown. It is the only
// projection with a code.
const Sentinel = `{"v":1,"status":"error","code":"projection-failed","parts":[{"kind":"text","text":"` + sentinelText + `"}]}`

const (
	sentinelCode = "projection-failed"
	sentinelText = "The tool ran. Its result could not be shown."
)

// Status says how the tool itself fared.
type Status string

// The two statuses.
const (
	OK    Status = "ok"
	Error Status = "error"
)

// Projection is a projection in memory. It holds nothing of what it was decoded
// from.
type Projection struct {
	Status Status
	// Code is empty but for the sentinel.
	Code  string
	Parts []Part // 1 to PartsMax
}

// Part is a Text, a JSON or an Image. Two parts are equal (==) when their
// canonical forms are.
type Part interface{ part() }

// Text is what a text part says: UTF-8, in which a surrogate that is alone,
// which JSON can spell and UTF-8 cannot, has its three bytes (WTF-8).
type Text string

// JSON is the text of a json part's value, without blanks between its tokens.
type JSON string

// Image is an image that is kept beside the projection.
type Image struct {
	MediaType MediaType
	Ref       Ref
}

func (Text) part()  {}
func (JSON) part()  {}
func (Image) part() {}

// Ref is a reference to an artifact. It is resolved by run and name; digest and
// length are then compared.
type Ref struct {
	Run   string
	Name  string // 1 to NameBytesMax
	B3    Digest
	Bytes int64 // 1 to ImageBytesMax
}

// Digest is the BLAKE3 of an artifact's bytes, 64 lower-case hexadecimal digits
// as text.
type Digest [32]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsSentinel reports whether p stands for a projection that could not be made.
func (p Projection) IsSentinel() bool { return p.Code != "" }

// failed is the sentinel in memory.
func failed() Projection {
	return Projection{Status: Error, Code: sentinelCode, Parts: []Part{Text(sentinelText)}}
}
