/** A box at each file of a diff marks it as viewed, and folds it. The browser keeps the marks until the content changes. */

const KEPT = "slipway:viewed"
/** Diffs whose marks are kept, the newest ones. */
const MAX_REVIEWS = 50

/** For each diff, the viewed contents by path. @returns {Record<string, Record<string, string>>} */
const read = () => {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? "{}")
  } catch {
    return {}
  }
}

/** @param {string} review @param {string} path @param {string | undefined} blobs */
const keep = (review, path, blobs) => {
  const { [review]: viewed = {}, ...others } = read()
  if (blobs === undefined) delete viewed[path]
  else viewed[path] = blobs
  const kept = Object.entries({ ...others, [review]: viewed }).slice(-MAX_REVIEWS)
  try {
    localStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(kept)))
  } catch { /* Nothing is kept. */ }
}

const count = document.getElementById("viewed")
const boxes = [...document.querySelectorAll(".file-box")].flatMap((box) => box instanceof HTMLElement ? [box] : [])
/** @type {Array<HTMLInputElement>} */
const fields = []

const tell = () => {
  if (count !== null) count.textContent = `${fields.filter(({ checked }) => checked).length} of ${fields.length} viewed`
}

/** @param {HTMLElement} box @param {string} review */
const mark = (box, review) => {
  const details = box.querySelector("details")
  const path = details?.querySelector(".path")?.textContent ?? ""
  const { blobs = "" } = box.dataset
  const label = document.createElement("label")
  label.className = "viewed"
  const field = document.createElement("input")
  field.type = "checkbox"
  const name = document.createElement("span")
  name.className = "unseen"
  name.textContent = ` ${path}`
  label.append(field, "Viewed", name)
  box.prepend(label)
  fields.push(field)
  const fold = () => details?.toggleAttribute("open", !field.checked)
  field.checked = read()[review]?.[path] === blobs
  if (field.checked) fold()
  field.addEventListener("change", () => {
    keep(review, path, field.checked ? blobs : undefined)
    fold()
    tell()
  })
}

if (count !== null && boxes.length > 0) {
  for (const box of boxes) mark(box, count.dataset["review"] ?? "")
  tell()
}
