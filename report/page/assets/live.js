// A placeholder: what only the live page does.
