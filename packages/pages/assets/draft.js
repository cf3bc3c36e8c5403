/** The text of a form with `data-draft` survives a reload, until it is sent. */

const KEPT = "slipway:draft:"

/** @param {HTMLFormElement} form */
const fieldsOf = (form) =>
  [...form.elements].flatMap((field) =>
    (field instanceof HTMLInputElement && field.type !== "hidden" || field instanceof HTMLSelectElement ||
        field instanceof HTMLTextAreaElement) &&
      field.id !== ""
      ? [field]
      : []
  )

/** @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} field */
const isRadio = (field) => field instanceof HTMLInputElement && field.type === "radio"

/**
 * A browser that keeps nothing for us is no reason to fail.
 * @param {HTMLFormElement} form
 */
export const keepDraft = (form) => {
  const name = KEPT + form.dataset["draft"]
  const read = () => {
    try {
      return JSON.parse(localStorage.getItem(name) ?? "{}")
    } catch {
      return {}
    }
  }
  const forget = () => {
    try {
      localStorage.removeItem(name)
    } catch { /* Nothing is kept. */ }
  }
  if (form.dataset["refused"] === undefined) {
    const known = read()
    for (const field of fieldsOf(form)) {
      const value = known[field.id]
      if (typeof value === "boolean" && field instanceof HTMLInputElement) field.checked = value
      else if (typeof value === "string" && !isRadio(field)) {
        const before = field.value
        field.value = value
        // An option that is gone.
        if (field instanceof HTMLSelectElement && field.selectedIndex < 0) field.value = before
        if (value !== "") field.closest("details")?.toggleAttribute("data-typed", true)
      }
    }
  }
  form.addEventListener("input", () => {
    const fields = fieldsOf(form)
    if (fields.every(({ value }) => value === "")) return forget()
    /** @type {Record<string, string | boolean>} */
    const typed = {}
    for (const field of fields) typed[field.id] = isRadio(field) && field instanceof HTMLInputElement ? field.checked : field.value
    try {
      localStorage.setItem(name, JSON.stringify(typed))
    } catch { /* Nothing is kept. */ }
  })
  form.addEventListener("reset", forget)
  return { forget }
}
