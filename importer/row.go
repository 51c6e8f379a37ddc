package importer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// timeNames are the names under which sessions keep the time of a row, the
// likeliest first.
var timeNames = []string{"time", "timestamp", "ts", "created_at", "createdAt", "created", "date"}

// reserved are the log's own names at the top of a row.
var reserved = []string{"seq", "by"}

// object makes a row of one valid JSON object on one line. Its type is kind
// where it has none of its own.
func (r *reader) object(at place, obj []byte, kind string) error {
	f := fieldsOf(obj)
	if len(r.start) == 0 && len(f.members) > 0 {
		r.start = bytes.Clone(obj[:f.members[0].nameEnd])
	}
	if r.sum.Task == "" && r.sum.Rows < 50 {
		r.sum.Task = taskOf(obj)
	}
	row := Row{Line: at.line, Offset: at.offset}
	var when string
	row.Time, when = f.time(obj)

	text := f.rename(obj, func(old, name string) {
		r.sum.Renamed++
		r.tell(at, false, "the field %q is the log's own name; renamed to %q", old, name)
	})
	var put []byte
	if _, ok := f.byName["type"]; !ok {
		if _, ok := f.byName["role"]; ok {
			kind = "message"
		}
		put = append(put, `"type":`+strconv.Quote(kind)+`,`...)
	}
	if _, ok := f.byName["time"]; !ok && when != "" {
		put = append(put, `"time":"`+when+`",`...)
	}
	if len(f.members) == 0 {
		put = bytes.TrimSuffix(put, []byte(","))
	}
	if size := len(text) + len(put); size > r.in.bytesMax {
		r.tell(at, true, "a row of %d bytes, and the limit is %d; passed over", size, r.in.bytesMax)
		return nil
	}
	row.Added = len(put)
	row.JSON = slices.Concat(text[:1], put, text[1:])
	return r.put(row)
}

// binary makes a row of bytes that are no text.
func (r *reader) binary(at place, text []byte) error {
	if len(text) > b64BytesMax {
		r.tell(at, true, "%d bytes that are not UTF-8 text; passed over", len(text))
		return nil
	}
	r.sum.Binary++
	r.tell(at, false, "%d bytes that are not UTF-8 text, kept as base64", len(text))
	row := []byte(`{"type":"binary","b64":"`)
	row = base64.StdEncoding.AppendEncode(row, text)
	row = append(row, `"}`...)
	return r.put(Row{JSON: row, Added: len(row) - 1, Line: at.line, Offset: at.offset})
}

// fields are the fields of an object, in order; of two with the same name
// byName has the last, as most readers do.
type fields struct {
	members []member
	names   []string
	byName  map[string]member
}

func fieldsOf(obj []byte) fields {
	f := fields{byName: map[string]member{}}
	s := scanner{src: obj, members: func(raw []byte, m member) {
		name := unquote(raw)
		f.members = append(f.members, m)
		f.names = append(f.names, name)
		f.byName[name] = m
	}}
	s.value(0) // obj is valid
	return f
}

// unquote decodes a valid JSON string.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	json.Unmarshal(raw, &s) // raw is valid
	return s
}

// rename gives reserved names others that are free, and tells of each. An
// object without any is returned as it is.
func (f fields) rename(obj []byte, tell func(old, name string)) []byte {
	var out []byte
	from := 0
	for i, name := range f.names {
		if !slices.Contains(reserved, name) {
			continue
		}
		other := f.free("source_" + name)
		tell(name, other)
		out = append(out, obj[from:f.members[i].name]...)
		out = strconv.AppendQuote(out, other)
		from = f.members[i].nameEnd
	}
	if from == 0 {
		return obj
	}
	return append(out, obj[from:]...)
}

// free finds a name that no field has, and takes it.
func (f fields) free(name string) string {
	try := name
	for n := 2; ; n++ {
		if _, taken := f.byName[try]; !taken {
			f.byName[try] = member{}
			return try
		}
		try = name + "_" + strconv.Itoa(n)
	}
}

// time finds the row's time, and how it is written in a row.
func (f fields) time(obj []byte) (time.Time, string) {
	for _, name := range timeNames {
		m, ok := f.byName[name]
		if !ok {
			continue
		}
		if t, ok := parseTime(obj[m.value:m.end]); ok {
			return t, t.Format(time.RFC3339Nano)
		}
	}
	return time.Time{}, ""
}

// parseTime understands RFC 3339 and Unix times in seconds (whole or not),
// milliseconds, microseconds or nanoseconds. They are told apart by size:
// seconds reach the year 5138 before they look like milliseconds of 1973.
func parseTime(raw []byte) (time.Time, bool) {
	if raw[0] == '"' {
		t, err := time.Parse(time.RFC3339Nano, unquote(raw))
		return t.UTC(), err == nil && t.Year() > 1970 && t.Year() < 10000
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		sec, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || sec < 1e8 || sec >= 1e11 {
			return time.Time{}, false
		}
		return time.UnixMicro(int64(sec * 1e6)).UTC(), true
	}
	switch {
	case n < 1e8: // a count of something else
		return time.Time{}, false
	case n < 1e11:
		return time.Unix(n, 0).UTC(), true
	case n < 1e14:
		return time.UnixMilli(n).UTC(), true
	case n < 1e17:
		return time.UnixMicro(n).UTC(), true
	default:
		return time.Unix(0, n).UTC(), true
	}
}
