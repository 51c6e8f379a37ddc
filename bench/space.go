package bench

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"durafs/runs"
	"durafs/store"
)

// measureSpace compares what runs take on the disk with the same rows as a
// JSONL file for each run, and with those files compressed.
func measureSpace(ctx context.Context, b *bench) ([]Row, error) {
	dir := filepath.Join(b.dir, "store")
	o := GenerateOptions{Runs: b.spaceRuns, Rows: 50 * b.spaceRuns, RowBytes: 1 << 10, Interleave: 64, Labels: true}
	if _, err := Generate(ctx, dir, o); err != nil {
		return nil, err
	}
	stored, err := storedBytes(dir)
	if err != nil {
		return nil, err
	}
	lines, packed, err := jsonlBytes(ctx, dir)
	if err != nil {
		return nil, err
	}
	return []Row{
		row("bytes on disk / the same runs as JSONL", "B", 0.35, true, []pair{{stored, lines}}),
		row("bytes on disk / the same runs as JSONL.zst -3", "B", 1.5, true, []pair{{stored, packed}}),
	}, nil
}

// storedBytes are those of all files of a store that is closed. What was
// written ahead or set aside holds nothing, and does not grow with the runs.
func storedBytes(dir string) (float64, error) {
	total := int64(0)
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.HasPrefix(e.Name(), "spare-") || strings.Contains(e.Name(), "ballast") {
			return err
		}
		info, err := e.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return float64(total), err
}

// jsonlBytes are those of all runs' rendered logs, as they are and compressed.
func jsonlBytes(ctx context.Context, dir string) (lines, packed float64, err error) {
	s, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		return 0, 0, err
	}
	defer s.Close(context.WithoutCancel(ctx))
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(3)))
	if err != nil {
		return 0, 0, err
	}
	defer enc.Close()
	q := runs.ListQuery{Limit: 1000}
	for {
		page, err := s.Runs().List(runs.Caller{Owner: true}, q)
		if err != nil {
			return 0, 0, err
		}
		for _, rec := range page.Runs {
			ref, _ := s.Runs().Lookup(rec.ID)
			text := make([]byte, rec.Log.Bytes)
			if _, err := s.Runs().ReadLogAt(ref, text, 0); err != nil && err != io.EOF {
				return 0, 0, err
			}
			lines += float64(len(text))
			packed += float64(len(enc.EncodeAll(text, nil)))
		}
		if q.After = page.Next; q.After == "" {
			return lines, packed, nil
		}
	}
}
