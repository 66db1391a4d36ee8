// Package page writes results as one HTML page that needs no network: a picture of the tables
// on each device, the step as a timeline, memory, tables with their alternatives, and the
// certificate.
//
//	Document   the data of a page (document.go)
//	Judge      computes the simulated cost, the certificate and the alternatives of a plan
//	           (judge.go)
//	New        a plan as data (plan.go), with its tables and shards (tables.go)
//	Compare    what changes between two plans (compare.go)
//	NewSweep   a sweep as data (sweep.go)
//	Write      the page as one file; Live and Assets are the page of the service
//	           (write.go, shell.go)
//
// The scripts in assets draw the page in the reader's browser from the Document alone.
// Equal arguments give equal bytes.
package page
