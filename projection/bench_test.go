package projection

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"durafs/internal/jsonscan"
)

// benchCandidates are of 200 KiB each: what tools send, and the worst of its
// kind.
func benchCandidates(b *testing.B) map[string][]byte {
	const size = 200 << 10
	source, err := os.ReadFile(filepath.Join("parse.go"))
	if err != nil {
		b.Fatal(err)
	}
	code := strings.Repeat(string(source), size/len(source)+1)
	var rows, dense strings.Builder
	for i := 0; rows.Len() < size-1000; i++ {
		fmt.Fprintf(&rows, `,{"id":%d,"path":"projection/file_%d.go","size":%d.25,"tags":["a","b"],"ok":true,"note":"line\nbreak \"%d\""}`, i, i, i*37, i)
	}
	for i := 0; dense.Len() < size-1000; i++ {
		fmt.Fprintf(&dense, `,"n%d":%d`, i, i%10)
	}
	return map[string][]byte{
		"text":  []byte(doc(string(appendPart(nil, Text(strings.Repeat("plain words and more ", size/21))))).join()),
		"code":  []byte(doc(string(appendPart(nil, Text(code[:size-size/25])))).join()),
		"utf8":  []byte(doc(text(strings.Repeat("größere Wörter, 図表 ", size/25))).join()),
		"rows":  []byte(doc(value("[" + rows.String()[1:] + "]")).join()),
		"names": []byte(doc(value("{" + dense.String()[1:] + "}")).join()),
		"nodes": []byte(doc(value("[", rep(`"abcdefg",`, NodesMax-2), "0]")).join()),
		"mixed": []byte(doc(text(strings.Repeat(`a line of output\n`, size/40)), ",", value("["+rows.String()[1:size/2]+`"}]`)).join()),
	}
}

func BenchmarkAdmit(b *testing.B) {
	for name, in := range benchCandidates(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Admit(in, Call{vectorRun, vectorCall}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	img := doc(image("image/jpeg", data("/9j/", rep("AAAA", 200<<8)))).bytes(b)
	b.Run("image", func(b *testing.B) {
		b.SetBytes(int64(len(img)))
		for b.Loop() {
			if _, err := Admit(img, Call{vectorRun, vectorCall}, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for name, in := range benchCandidates(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				if _, err := Decode(in, vectorRun); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkScan(b *testing.B) {
	for name, in := range benchCandidates(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				if !jsonscan.Valid(in, 100) {
					b.Fatal("not valid")
				}
			}
		})
	}
}
