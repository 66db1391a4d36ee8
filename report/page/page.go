// Package page writes results as one HTML page that needs no network: a picture of who
// holds what, the step as a timeline, memory, tables with their alternatives, and the
// certificate.
//
//	Document   the data of a page (document.go)
package page
