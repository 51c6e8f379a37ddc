package server

import (
	"net/http"
	"strconv"

	"durafs/control"
	"durafs/runs"
)

// append is POST /v1/runs/{id}/log?key=FIELD: one row, or a stream of them.
func (r *request) append() error {
	q := r.query([]string{"key"})
	if q.err != nil {
		return q.err
	}
	if err := r.contentType(control.TypeJSON, control.TypeNDJSON); err != nil {
		return err
	}
	if r.mediaType() == control.TypeNDJSON {
		return r.appendStream(q.str("key"))
	}
	row, err := r.whole(pacedBody{r}, r.s.limits.RowBytesMax, control.CodeRowTooLarge)
	if err != nil {
		return err
	}
	a, err := r.s.runs.Append(r.Context(), r.caller, r.PathValue("id"), []runs.Row{{JSON: row}}, q.str("key"))
	if err != nil {
		return err
	}
	r.s.stats.rows.Add(1)
	r.send(http.StatusOK, jsonType, appendedJSON(a))
	return nil
}

// appendedJSON is a as JSON: the answer that is given most.
func appendedJSON(a runs.Appended) []byte {
	b := make([]byte, 0, 96)
	b = append(b, `{"first_seq":`...)
	b = strconv.AppendUint(b, a.FirstSeq, 10)
	b = append(b, `,"last_seq":`...)
	b = strconv.AppendUint(b, a.LastSeq, 10)
	b = append(b, `,"rows":`...)
	b = strconv.AppendInt(b, int64(a.Rows), 10)
	if a.Replayed {
		b = append(b, `,"replayed":true`...)
	}
	return append(b, "}\n"...)
}
