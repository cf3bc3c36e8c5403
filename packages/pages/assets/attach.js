/**
 * Files of a form with `data-attach`: those that are pasted or dropped join those that are chosen in its field, and all are shown below it.
 * Without scripts the field alone does.
 */

/** @param {HTMLElement} place */
const fieldIn = (place) => {
  const field = place.querySelector("input[type=file]")
  return field instanceof HTMLInputElement ? field : null
}

/** The place for files of the form that the event is in. @param {EventTarget | null} target */
const placeOf = (target) => {
  const place = target instanceof Element ? target.closest("form")?.querySelector("[data-attach]") : null
  return place instanceof HTMLElement ? place : null
}

/** @param {HTMLInputElement} field @param {ReadonlyArray<File>} files */
const put = (field, files) => {
  const all = new DataTransfer()
  for (const file of files) all.items.add(file)
  field.files = all.files
  field.dispatchEvent(new Event("change", { bubbles: true }))
}

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"]

/** @param {File} file @param {() => void} remove */
const entry = (file, remove) => {
  const item = document.createElement("li")
  if (IMAGES.includes(file.type)) {
    const picture = document.createElement("img")
    picture.alt = ""
    picture.src = URL.createObjectURL(file)
    picture.addEventListener("load", () => URL.revokeObjectURL(picture.src))
    item.append(picture)
  }
  const name = document.createElement("span")
  name.textContent = file.name
  const button = document.createElement("button")
  button.type = "button"
  button.className = "quiet"
  button.textContent = "Remove"
  button.setAttribute("aria-label", `Remove ${file.name}`)
  button.addEventListener("click", remove)
  item.append(name, button)
  return item
}

/** Shows what is chosen. @param {HTMLElement} place */
const show = (place) => {
  const field = fieldIn(place)
  const list = place.querySelector(".attach-list")
  if (field === null || !(list instanceof HTMLElement)) return
  const files = [...field.files ?? []]
  const most = Number(place.dataset["attach"]) - place.querySelectorAll("input[name=files]:checked").length
  field.setCustomValidity(files.length > most ? `Up to ${place.dataset["attach"]} files.` : "")
  list.hidden = files.length === 0
  list.replaceChildren(...files.map((file) =>
    entry(file, () => {
      put(field, files.filter((other) => other !== file))
      field.focus()
    })
  ))
}

/** @param {EventTarget | null} target @param {DataTransfer | null} data @param {Event} event */
const take = (target, data, event) => {
  const place = placeOf(target)
  const field = place === null ? null : fieldIn(place)
  const files = [...data?.files ?? []]
  if (field === null || files.length === 0) return
  event.preventDefault()
  put(field, [...field.files ?? [], ...files])
}

/** Once a page. */
export const attach = () => {
  document.addEventListener("change", ({ target }) => {
    const place = target instanceof HTMLInputElement && (target.type === "file" || target.name === "files") ? placeOf(target) : null
    if (place !== null) show(place)
  })
  // The field is empty only after the event.
  document.addEventListener("reset", ({ target }) =>
    setTimeout(() => {
      const place = placeOf(target)
      if (place !== null) show(place)
    }))
  document.addEventListener("paste", (event) => take(event.target, event.clipboardData, event))
  document.addEventListener("dragover", (event) => {
    if (placeOf(event.target) !== null && event.dataTransfer?.types.includes("Files") === true) event.preventDefault()
  })
  document.addEventListener("drop", (event) => take(event.target, event.dataTransfer, event))
  // A browser that goes back keeps what was chosen.
  for (const place of document.querySelectorAll("[data-attach]")) if (place instanceof HTMLElement) show(place)
}
