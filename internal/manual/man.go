package manual

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Man writes a man page of the root command, its topics and each visible command below it to a
// folder, such as neuroshard-plan.1. The folder is made if it does not exist. The pages have the
// month of SOURCE_DATE_EPOCH, or else of today. The commands' long texts are Markdown afterwards.
func Man(root *cobra.Command, version, folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	header := doc.GenManHeader{Section: "1", Source: root.Name() + " " + version, Manual: "User Commands"}
	root.DisableAutoGenTag = true
	root.Long = prose(about(root))
	walk(root, func(c *cobra.Command) { c.Long = prose(about(c)) })
	if err := doc.GenManTree(root, &header, folder); err != nil {
		return err
	}
	for _, topic := range topics(root) {
		topic.Long, topic.DisableFlagsInUseLine = prose(about(topic)), true
		f, err := os.Create(filepath.Join(folder, root.Name()+"-"+topic.Name()+".1"))
		if err != nil {
			return err
		}
		own := header
		if err := doc.GenMan(topic, &own, f); err != nil {
			_ = f.Close()
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
