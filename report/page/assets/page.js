// A placeholder: the page shows its data as text.
globalThis.neuroshard = {
  render(document_, root) {
    const text = root.ownerDocument.createElement("pre");
    text.textContent = JSON.stringify(document_, null, 1);
    root.append(text);
  },
};
const data = document.getElementById("document");
if (data) {
  neuroshard.render(JSON.parse(data.textContent), document.getElementById("page"));
}
