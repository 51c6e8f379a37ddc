package projection

import (
	"io"
	"iter"
	"strconv"
	"unicode/utf8"

	"github.com/zeebo/blake3"

	"durafs/internal/jsonscan"
)

// A history is what a model should see of a run's tool calls: one line of JSON
// for each, in the order of their claims. It is a pure function of the log up to
// a place, so that a live agent, the next turn and a restart read the same
// bytes.
//
//	{"call":7,"call_id":"c7","name":"bash","arguments":{"command":"ls"},"result":{"v":1,…}}
//	{"call":8,"call_id":"c8","name":"bash","arguments_b3":"af13…","result":{"status":"unknown","synthetic":true}}
//
// A call of which nobody told what became of it has a result all the same, one
// that says so: calls and results are always paired.

// unknownResult is the result of a call without an outcome.
const unknownResult = `{"status":"unknown","synthetic":true}`

// ArgumentsDepthMax bounds how deep arguments may nest and still be shown as
// JSON; deeper ones are shown as text.
const ArgumentsDepthMax = 1000

// Event is an entry of a log that is about a call: its claim, or what became
// of it. K tells calls apart, A is where the caller finds the entry again.
type Event[K comparable, A any] struct {
	Call    K
	Outcome bool
	At      A
}

// Pair is a call: where its claim stands, and where its outcome.
type Pair[A any] struct {
	Claim   A
	Outcome A
	Settled bool // there is an outcome
}

// Fold pairs claims with outcomes, in the order of the claims. An open call
// that is claimed once more is run again and stays one; after its outcome the
// same name is another call. An outcome without a claim is of no call, and left
// out. It keeps nothing of an entry but its place.
func Fold[K comparable, A any](events iter.Seq2[Event[K, A], error]) ([]Pair[A], error) {
	var pairs []Pair[A]
	open := map[K]int{}
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		n, known := open[e.Call]
		switch {
		case e.Outcome && known:
			pairs[n].Outcome, pairs[n].Settled = e.At, true
			delete(open, e.Call)
		case !e.Outcome && !known:
			open[e.Call] = len(pairs)
			pairs = append(pairs, Pair[A]{Claim: e.At})
		}
	}
	return pairs, nil
}

// Turn is a call as a history shows it.
type Turn struct {
	Call   uint64
	CallID string
	Name   string
	// Arguments are inline, JSON as a rule; where they are nil, ArgumentsB3 is
	// their digest in text, "" for none.
	Arguments   []byte
	ArgumentsB3 string
	// Result is what is shown; nil says that nobody told what became of it.
	Result *Projection
}

// Dropped is what a history says of a run whose log was compacted.
type Dropped struct {
	Calls  uint64
	At     string // RFC 3339
	Policy string
}

// AppendDropped appends the one line of such a history.
func AppendDropped(dst []byte, d Dropped) []byte {
	dst = append(dst, `{"compacted":true,"calls_dropped":`...)
	dst = strconv.AppendUint(dst, d.Calls, 10)
	dst = append(dst, `,"at":`...)
	dst = jsonscan.AppendLiteral(dst, d.At)
	dst = append(dst, `,"policy":`...)
	dst = jsonscan.AppendLiteral(dst, d.Policy)
	return append(dst, '}', '\n')
}

// AppendTurn appends a line, with references where there are images.
func AppendTurn(dst []byte, t Turn) []byte {
	dst = t.appendHead(dst)
	switch {
	case t.Result == nil:
		dst = append(dst, unknownResult...)
	case t.Result.IsSentinel():
		dst = append(dst, Sentinel...)
	default:
		dst = t.Result.append(dst)
	}
	return append(dst, '}', '\n')
}

// appendHead appends what stands before the result.
func (t *Turn) appendHead(dst []byte) []byte {
	dst = append(dst, `{"call":`...)
	dst = strconv.AppendUint(dst, t.Call, 10)
	dst = append(dst, `,"call_id":`...)
	dst = appendText(dst, t.CallID)
	dst = append(dst, `,"name":`...)
	dst = appendText(dst, t.Name)
	switch {
	case t.Arguments != nil:
		dst = append(dst, `,"arguments":`...)
		dst = appendArguments(dst, t.Arguments)
	case t.ArgumentsB3 != "":
		dst = append(dst, `,"arguments_b3":`...)
		dst = appendText(dst, t.ArgumentsB3)
	}
	return append(dst, `,"result":`...)
}

// appendArguments appends arguments as they are, without blanks; what is no
// JSON as a string.
func appendArguments(dst, args []byte) []byte {
	if utf8.Valid(args) && jsonscan.Valid(args, ArgumentsDepthMax) {
		return jsonscan.AppendCompact(dst, trim(args))
	}
	return appendText(dst, string(args))
}

// appendText appends a string of any bytes.
func appendText(dst []byte, s string) []byte { return jsonscan.AppendLiteral(dst, toText(s)) }

// Decision is what became of an image in a history.
type Decision string

// The decisions.
const (
	Inline     Decision = "inline"      // its bytes are in the line
	NoVision   Decision = "no-vision"   // the reader takes text only
	OverBudget Decision = "over-budget" // the budget does not reach
	Gone       Decision = "gone"        // it cannot be read, or is not what it was
)

// Materializer shows a run's history to a provider: images become bytes in the
// line as long as the budget lasts, else a text part that says so. The budget
// is spent in the order of calls and parts; an image that does not fit is left
// out, and a smaller one behind it may fit.
//
// What it decides is a function of the turns before, Vision and Budget; nothing
// is kept, so that doing it again decides the same and charges nothing twice.
// It is for one pass over one history, and for one goroutine.
type Materializer struct {
	Run    string
	Vision bool
	Budget int64 // bytes of images
	// Artifact reads an image of the run; ok is false where it is gone.
	Artifact func(r Ref) (image []byte, ok bool, err error)

	buf []byte
}

// decided is a decision as a line tells it.
type decided struct {
	part     int
	decision Decision
	bytes    int64
}

// WriteTurn writes a line. At most one image is in memory at a time.
//
//	{"call":7,…,"result":{"v":1,"status":"ok","parts":[{"kind":"image","media_type":"image/png","data":"iVBO…"}]},
//	 "images":[{"key":"RUN/7/0","decision":"inline","bytes":4711}]}
func (m *Materializer) WriteTurn(w io.Writer, t Turn) error {
	if t.Result == nil || len(t.Result.Refs()) == 0 {
		m.buf = AppendTurn(m.buf[:0], t)
		return m.flush(w)
	}
	m.buf = t.appendHead(m.buf[:0])
	m.buf = append(m.buf, `{"v":1,"status":"`...)
	m.buf = append(m.buf, t.Result.Status...)
	m.buf = append(m.buf, `","parts":[`...)
	var images []decided
	for i, part := range t.Result.Parts {
		if i > 0 {
			m.buf = append(m.buf, ',')
		}
		im, ok := part.(Image)
		if !ok {
			m.buf = appendPart(m.buf, part)
			continue
		}
		d, err := m.image(im)
		if err != nil {
			return err
		}
		d.part = i
		images = append(images, d)
		if err := m.flush(w); err != nil {
			return err
		}
	}
	m.buf = append(m.buf, `]}`...)
	m.appendDecisions(t.Call, images)
	m.buf = append(m.buf, '}', '\n')
	return m.flush(w)
}

func (m *Materializer) flush(w io.Writer) error {
	_, err := w.Write(m.buf)
	m.buf = m.buf[:0]
	return err
}

// image appends an image's part, and decides what that is.
func (m *Materializer) image(im Image) (decided, error) {
	d := decided{decision: Inline, bytes: im.Ref.Bytes}
	var bytes []byte
	switch {
	case !m.Vision:
		d.decision = NoVision
	case im.Ref.Bytes > m.Budget:
		d.decision = OverBudget
	default:
		b, ok, err := m.Artifact(im.Ref)
		if err != nil {
			return d, err
		}
		bytes = b
		if !ok || int64(len(b)) != im.Ref.Bytes || !im.MediaType.Matches(b) || blake3.Sum256(b) != im.Ref.B3 {
			d.decision = Gone
		}
	}
	if d.decision != Inline {
		m.buf = appendPart(m.buf, Text(note(string(im.MediaType), im.Ref.Bytes, d.decision)))
		return d, nil
	}
	m.Budget -= d.bytes
	m.buf = append(m.buf, `{"kind":"image","media_type":"`...)
	m.buf = append(m.buf, im.MediaType...)
	m.buf = append(m.buf, `","data":"`...)
	m.buf = append64(m.buf, bytes)
	m.buf = append(m.buf, `"}`...)
	return d, nil
}

// notes say why an image is not shown.
var notes = map[Decision]string{
	NoVision:   "not shown, as only text is",
	OverBudget: "not shown, as the budget for images is spent",
	Gone:       "not shown, as it is gone",
}

// note is the text in place of an image.
func note(what string, bytes int64, d Decision) string {
	return "[image " + what + ", " + strconv.FormatInt(bytes, 10) + " bytes: " + notes[d] + "]"
}

func (m *Materializer) appendDecisions(call uint64, images []decided) {
	m.buf = append(m.buf, `,"images":[`...)
	for i, d := range images {
		if i > 0 {
			m.buf = append(m.buf, ',')
		}
		m.buf = append(m.buf, `{"key":"`...)
		m.buf = append(m.buf, m.Run...)
		m.buf = append(m.buf, '/')
		m.buf = strconv.AppendUint(m.buf, call, 10)
		m.buf = append(m.buf, '/')
		m.buf = strconv.AppendInt(m.buf, int64(d.part), 10)
		m.buf = append(m.buf, `","decision":"`...)
		m.buf = append(m.buf, d.decision...)
		m.buf = append(m.buf, `","bytes":`...)
		m.buf = strconv.AppendInt(m.buf, d.bytes, 10)
		m.buf = append(m.buf, '}')
	}
	m.buf = append(m.buf, ']')
}
