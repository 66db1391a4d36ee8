package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"strings"
)

// write.go puts a document and the embedded scripts into one HTML file. Names in a document come
// from files of others, and stay text:
//
//	the document   is JSON in a script element of a type that no browser runs. The encoder writes
//	               <, > and & as escapes, so that no name ends the element
//	the policy     lets the browser run only the scripts of this package, by their
//	               SHA-256, and load nothing from anywhere
//	the scripts    set names as text, never as HTML

//go:embed assets
var files embed.FS

// Assets returns the files of the live page: scripts and styles, with plain names such as
// "page.js". They do not change while the program runs.
func Assets() fs.FS {
	assets, err := fs.Sub(files, "assets")
	if err != nil {
		panic(err) // the name of the folder is a valid path
	}
	return assets
}

// Write writes the document as one HTML file that loads nothing. It sets the document's
// Format and Version.
func Write(w io.Writer, d *Document) error {
	d.Format, d.Version = Format, FormatVersion
	data, err := encode(d)
	if err != nil {
		return err
	}
	style, err := files.ReadFile("assets/page.css")
	if err != nil {
		return err
	}
	s := shell{title: d.Title, document: string(data), static: d, style: string(style)}
	hashes := make([]string, 0, 2)
	for _, name := range []string{"assets/parts.js", "assets/page.js"} {
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		s.scripts = append(s.scripts, string(text))
		hashes = append(hashes, hash(text))
	}
	s.policy = "default-src 'none'; script-src " + strings.Join(hashes, " ") +
		"; style-src " + hash(style) + "; img-src data:; base-uri 'none'; form-action 'none'"
	return s.write(w)
}

// Live writes the index of the service's page. The service sends the files of Assets under
// assets/, and a Content-Security-Policy header.
func Live(w io.Writer) error { return shell{title: "neuroshard", live: true}.write(w) }

// encode returns the document as JSON that may stand in a script element: it has no <, no
// & and no line separators but as escapes.
func encode(d *Document) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(true)
	err := encoder.Encode(d)
	return bytes.TrimSpace(b.Bytes()), err
}

// hash returns a source of a Content-Security-Policy that allows an element with the text.
func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
