package txn

import (
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Decoder gives what a record gives by itself, the second time too, and however many there are.
func TestDecoderIsTheRecordsOwn(t *testing.T) {
	c := chooser{rand.New(rand.NewSource(2))}
	d := NewDecoder(10)
	for range 50 {
		var recs []Record
		for range 40 {
			recs = append(recs, sealed(t, c.body(), Record{}))
		}
		for i := range recs {
			recs[i].Forget()
			require.NoError(t, d.Decode(&recs[i]))
		}
		for i := range recs {
			got, err := recs[i].Txn()
			require.NoError(t, err)
			want, err := decodePayload(recs[i].Payload(), nil)
			require.NoError(t, err)
			if c, ok := got.Body.(*Create); ok {
				require.Equal(t, c.Path+string(c.Data), c.TakePayload())
				require.Empty(t, c.TakePayload(), "one owner")
			}
			require.Equal(t, want, got)
		}
		d.Reset()
	}
	bad := Record{Bytes: make([]byte, RecordOverhead+3)}
	require.ErrorIs(t, d.Decode(&bad), ErrPayload)
}

func TestDecoderUsesMemoryAgain(t *testing.T) {
	d := NewDecoder(4)
	rec := sealed(t, &SetData{Path: "/a", Data: make([]byte, 100), Version: 3}, Record{})
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		rec.Forget()
		if d.Decode(&rec) != nil {
			t.Fatal("not decoded")
		}
		d.Reset()
	}), 1.0, "the path")
}
