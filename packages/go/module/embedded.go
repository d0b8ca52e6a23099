package oneflush

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// embeddedLibrary finds PLATFORM.so.gz and PLATFORM.sha256, its sum when it is unpacked, among the
// files of this processor.
func embeddedLibrary(platform string) (image, error) {
	sum, err := fs.ReadFile(embedded, embeddedFolder+"/"+platform+".sha256")
	if errors.Is(err, fs.ErrNotExist) {
		return image{}, fmt.Errorf("oneflush: this module was built without a library for %s; "+
			"set %s to a liboneflush.so for it", platform, libraryVariable)
	}
	if err != nil {
		return image{}, err
	}
	found := image{platform: platform, sha256: strings.TrimSpace(string(sum))}
	found.open = func() ([]byte, error) { return unpack(platform, found.sha256) }
	return found, nil
}

func unpack(platform, sum string) ([]byte, error) {
	packed, err := fs.ReadFile(embedded, embeddedFolder+"/"+platform+".so.gz")
	if err != nil {
		return nil, err
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	library, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	if found := sumOf(library); found != sum {
		return nil, fmt.Errorf("the library for %s in this program is damaged: its SHA-256 is %s "+
			"in place of %s", platform, found, sum)
	}
	return library, nil
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
