package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

const (
	manifestName    = "manifest"
	manifestMagic   = "zkd.mani"
	manifestVersion = 1
	initializedName = "initialized"
	tempSuffix      = ".tmp"
	wholeFileMax    = 1 << 20 // bound for the small files of this package, in bytes
)

var errManifest = errors.New("manifest is unreadable")

var errManifestVersion = errors.New("manifest was written by a newer version")

// manifest names what counts in the folder: the log's generation and the snapshots. Files that it does not name are left over
// from something that did not come to its end.
//
//	magic 8 | version 4 | generation 8 | base zxid 8 | base chain 8 | count 4 | zxid 8 … | CRC-32C of what stands before 4
type manifest struct {
	Generation uint64
	Base       zab.Position // before the first record that this generation ever had
	Snapshots  []txn.Zxid   // newest first
}

func encodeManifest(m *manifest) []byte {
	b := append([]byte(nil), manifestMagic...)
	b = binary.BigEndian.AppendUint32(b, manifestVersion)
	b = binary.BigEndian.AppendUint64(b, m.Generation)
	b = binary.BigEndian.AppendUint64(b, uint64(m.Base.Zxid))
	b = binary.BigEndian.AppendUint64(b, m.Base.Chain)
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.Snapshots)))
	for _, z := range m.Snapshots {
		b = binary.BigEndian.AppendUint64(b, uint64(z))
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeManifest(b []byte) (manifest, error) {
	const fixed = 8 + 4 + 8 + 8 + 8 + 4
	var m manifest
	end := len(b) - 4
	if end < fixed || string(b[:8]) != manifestMagic || crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return m, errManifest
	}
	if binary.BigEndian.Uint32(b[8:]) != manifestVersion {
		return m, errManifestVersion
	}
	n := uint64(binary.BigEndian.Uint32(b[fixed-4:]))
	if uint64(end-fixed) != n*8 {
		return m, errManifest
	}
	m.Generation = binary.BigEndian.Uint64(b[12:])
	m.Base = zab.Position{Zxid: txn.Zxid(binary.BigEndian.Uint64(b[20:])), Chain: binary.BigEndian.Uint64(b[28:])}
	for at := fixed; at < end; at += 8 {
		z := txn.Zxid(binary.BigEndian.Uint64(b[at:]))
		if k := len(m.Snapshots); k > 0 && m.Snapshots[k-1] <= z {
			return manifest{}, errManifest
		}
		m.Snapshots = append(m.Snapshots, z)
	}
	return m, nil
}

func readManifest(disk env.Disk, dir string) (manifest, error) {
	path := filepath.Join(dir, manifestName)
	b, err := readWhole(disk, path)
	if err != nil {
		return manifest{}, err
	}
	m, err := decodeManifest(b)
	if err != nil {
		return m, fmt.Errorf("%s at 0: %w", path, err)
	}
	return m, nil
}

func writeManifest(disk env.Disk, dir string, m *manifest) error {
	return writeWhole(disk, dir, manifestName, encodeManifest(m))
}

var errInitialized = errors.New("the file initialized is unreadable")

// encodeInitialized is text, for people too.
func encodeInitialized(clusterID uint64, created time.Time) []byte {
	body := fmt.Sprintf("cluster %016x\ncreated %s\n", clusterID, created.UTC().Format(time.RFC3339))
	return fmt.Appendf(nil, "%scheck %08x\n", body, crc32.Checksum([]byte(body), castagnoli))
}

func decodeInitialized(b []byte) (clusterID uint64, err error) {
	text := string(b)
	at := strings.Index(text, "check ")
	if at < 0 {
		return 0, errInitialized
	}
	if want := fmt.Sprintf("check %08x\n", crc32.Checksum(b[:at], castagnoli)); text[at:] != want {
		return 0, errInitialized
	}
	if _, err := fmt.Sscanf(text, "cluster %016x\n", &clusterID); err != nil || clusterID == 0 {
		return 0, errInitialized
	}
	return clusterID, nil
}

// errUnchanged: there was no space for the new file, and the old one is as it was.
var errUnchanged = errors.New("the old file stays")

// writeWhole makes or replaces a small file at one moment: temp, fsync, rename, fsync of the folder.
func writeWhole(disk env.Disk, dir, name string, content []byte) error {
	path := filepath.Join(dir, name)
	if err := disk.Remove(path + tempSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove old %s: %w", name+tempSuffix, err)
	}
	f, err := disk.Create(path + tempSuffix)
	if err == nil {
		_, err = f.WriteAt(content, 0)
		if err == nil {
			err = f.Sync()
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("write %s: %w: %w", name, errUnchanged, err)
	}
	if err == nil {
		err = disk.Rename(path+tempSuffix, path)
	}
	if err == nil && !mutant.On("R-56-manifest") {
		err = disk.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// readWhole reads a small file; fs.ErrNotExist if there is none.
func readWhole(disk env.Disk, path string) ([]byte, error) {
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, wholeFileMax))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}
