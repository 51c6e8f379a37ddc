package server

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"durafs/control"
	"durafs/runs"
)

// contentTypeBytesMax bounds a payload's content type.
const contentTypeBytesMax = 255

// putPayload is PUT /v1/runs/{id}/payloads/{name}: the raw bytes in.
func (r *request) putPayload() error {
	q := r.query([]string{"source"})
	if q.err != nil {
		return q.err
	}
	source := runs.SourceNamed
	if s := q.str("source"); s != "" {
		source = runs.Source(s)
	}
	contentType, err := r.header1("Content-Type")
	if err != nil {
		return err
	}
	if len(contentType) > contentTypeBytesMax {
		p := problem(http.StatusBadRequest, control.CodeBadHeader, fmt.Sprintf("the Content-Type has %d bytes, and the limit is %d", len(contentType), contentTypeBytesMax))
		p.Field, p.Size, p.Limit = "Content-Type", int64(len(contentType)), contentTypeBytesMax
		return p
	}
	info, replayed, err := r.s.runs.Put(r.Context(), r.caller, r.PathValue("id"), r.PathValue("name"), source, contentType, pacedBody{r})
	if err != nil {
		return err
	}
	r.etag(info.B3.String())
	status := http.StatusCreated
	if replayed {
		status = http.StatusOK
	}
	return r.answer(status, struct {
		Payload  runs.PayloadInfo `json:"payload"`
		Replayed bool             `json:"replayed,omitempty"`
	}{info, replayed})
}

// getPayload is GET /v1/runs/{id}/payloads/{name}: the raw bytes out, with
// ranges and conditions as http.ServeContent knows them.
func (r *request) getPayload() error {
	q := r.query([]string{"source"})
	if q.err != nil {
		return q.err
	}
	ref, err := r.s.runs.Look(r.caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	info, err := r.s.runs.PayloadInfo(ref, name)
	if err != nil {
		return err
	}
	if s := q.str("source"); s != "" && s != string(info.Source) {
		return &runs.Refusal{Code: runs.UnknownPayload, Detail: fmt.Sprintf("the payload %q is of source %s, not %q", bounded(name, 100), info.Source, bounded(s, 40))}
	}
	rd, err := r.s.runs.OpenPayload(ref, name)
	if err != nil {
		return err
	}
	h := r.w.Header()
	h["X-Content-Type-Options"] = []string{"nosniff"}
	h.Set("Content-Type", "application/octet-stream")
	if info.ContentType != "" {
		h.Set("Content-Type", info.ContentType)
	}
	r.etag(info.B3.String())
	return r.serveContent(rd)
}

// serveContent lets net/http answer, but takes what it has to say of errors
// into our own form, and notices an error of the payload before the first byte
// is out. A later one cuts the answer short of its Content-Length.
func (r *request) serveContent(rd runs.PayloadReader) error {
	body := &notingReader{r: rd}
	out := &lateWriter{r: r}
	http.ServeContent(out, r.Request, "", time.Time{}, io.NewSectionReader(body, 0, rd.Size()))
	switch {
	case out.status == http.StatusRequestedRangeNotSatisfiable:
		r.dropContentHeaders()
		p := problem(out.status, control.CodeRange, fmt.Sprintf("the range %q is not in the payload's %d bytes", bounded(r.Header.Get("Range"), 100), rd.Size()))
		p.Size = rd.Size()
		return p
	case body.err != nil && !r.began:
		r.dropContentHeaders()
		return body.err
	case body.err != nil:
		r.s.log.Error("payload cut short", "path", r.URL.Path, "err", body.err)
		panic(http.ErrAbortHandler)
	}
	out.commit()
	return nil
}

func (r *request) dropContentHeaders() {
	for _, name := range []string{"Content-Length", "Content-Range", "Accept-Ranges", "X-Content-Type-Options"} {
		r.w.Header().Del(name)
	}
}

// notingReader keeps the first error of a payload.
type notingReader struct {
	r   io.ReaderAt
	err error
}

func (n *notingReader) ReadAt(p []byte, off int64) (int, error) {
	k, err := n.r.ReadAt(p, off)
	if err != nil && err != io.EOF && n.err == nil {
		n.err = err
	}
	return k, err
}

// lateWriter sends the header with the first bytes of the body.
type lateWriter struct {
	r      *request
	status int
}

func (w *lateWriter) Header() http.Header { return w.r.w.Header() }

func (w *lateWriter) WriteHeader(status int) { w.status = status }

func (w *lateWriter) Write(p []byte) (int, error) {
	if w.status == http.StatusRequestedRangeNotSatisfiable {
		return len(p), nil
	}
	w.commit()
	w.r.readerMayTake()
	return w.r.w.Write(p)
}

// ReadFrom copies in larger steps than io.Copy would.
func (w *lateWriter) ReadFrom(src io.Reader) (n int64, err error) {
	buf := takeBuffer()
	defer giveBuffer(buf)
	for {
		k, err := src.Read(*buf)
		if k > 0 {
			m, err := w.Write((*buf)[:k])
			n += int64(m)
			if err != nil {
				return n, err
			}
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func (w *lateWriter) commit() {
	if w.r.began {
		return
	}
	w.r.began = true
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.r.w.WriteHeader(w.status)
}
