/**
 * Comments on lines of a diff: a field opens below the line, and its text goes to the message box with the line, where several comments
 * become one message. Without this script each button leads to a page with the message box.
 */

const SAID_MS = 6_000

/** @param {string} text */
const say = (text) => {
  const line = document.createElement("p")
  line.className = "told"
  line.textContent = text
  document.getElementById("outcome")?.replaceChildren(line)
  setTimeout(() => line.remove(), SAID_MS)
}

/** `src/cart/total.ts:5`, as the server names it. @param {HTMLButtonElement} button */
const placeOf = ({ form, value }) => {
  const line = Number(value)
  const { place = "", version } = form?.dataset ?? {}
  return `${place}:${Math.abs(line)}${line < 0 ? " (removed)" : version === undefined ? "" : ` (${version})`}`
}

/** The text of the line, without what the page says about it. @param {HTMLButtonElement} button */
const lineOf = (button) => {
  const code = button.closest("td")?.nextElementSibling?.querySelector("code")?.cloneNode(true)
  if (!(code instanceof HTMLElement)) return ""
  for (const aside of code.querySelectorAll(".aside")) aside.remove()
  return code.textContent?.trimEnd() ?? ""
}

/** @param {HTMLTextAreaElement} message @param {string} comment */
const add = (message, comment) => {
  const before = message.value.trimEnd()
  message.value = before === "" ? comment : `${before}\n\n${comment}`
  // The draft is kept.
  message.dispatchEvent(new Event("input", { bubbles: true }))
  say("Added to your message.")
}

/** @param {string} text @param {string} kind */
const buttonOf = (text, kind) => {
  const button = document.createElement("button")
  button.textContent = text
  button.className = kind
  return button
}

let opened = 0

/** @param {HTMLButtonElement} button @param {HTMLTextAreaElement} message */
const open = (button, message) => {
  const row = button.closest("tr")
  if (row === null) return
  // A row of a split diff has two lines.
  for (
    let known = row.nextElementSibling;
    known instanceof HTMLElement && known.matches(".comment-row");
    known = known.nextElementSibling
  ) {
    if (known.dataset["line"] === button.value) return known.querySelector("textarea")?.focus()
  }
  const place = placeOf(button)
  const below = document.createElement("tr")
  below.className = "comment-row"
  below.dataset["line"] = button.value
  const cell = document.createElement("td")
  if (button.closest(".now") !== null) cell.className = "now"
  cell.colSpan = [...row.cells].reduce((sum, { colSpan }) => sum + colSpan, 0)
  const form = document.createElement("form")
  form.className = "line-comment"
  const label = document.createElement("label")
  label.textContent = `Comment on ${place}`
  const field = document.createElement("textarea")
  field.id = label.htmlFor = `line-comment-${++opened}`
  field.required = true
  field.rows = 2
  const actions = document.createElement("div")
  actions.className = "actions"
  const cancel = buttonOf("Cancel", "quiet")
  cancel.type = "button"
  actions.append(buttonOf("Add to message", ""), cancel)
  form.append(label, field, actions)
  cell.append(form)
  below.append(cell)
  row.after(below)
  field.focus()

  const close = () => {
    below.remove()
    button.focus()
  }
  cancel.addEventListener("click", close)
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    add(message, `${place}\n> ${lineOf(button)}\n\n${field.value.trim()}`)
    button.toggleAttribute("data-commented", true)
    close()
  })
  form.addEventListener("keydown", (event) => {
    if (event.isComposing) return
    if (event.key === "Escape") close()
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit()
  })
}

/** One button of a table is reached by Tab, the others from it by arrow keys. @param {Element} table */
const rove = (table) => {
  const buttons = [...table.querySelectorAll(".comment-on")].flatMap((one) => one instanceof HTMLButtonElement ? [one] : [])
  for (const [i, button] of buttons.entries()) button.tabIndex = i === 0 ? 0 : -1
  table.addEventListener("keydown", (event) => {
    if (!(event instanceof KeyboardEvent) || !(event.target instanceof HTMLButtonElement)) return
    const at = buttons.indexOf(event.target)
    const next = at === -1 ? undefined : event.key === "ArrowDown" ? buttons[at + 1] : event.key === "ArrowUp" ? buttons[at - 1] : undefined
    if (next === undefined) return
    event.preventDefault()
    event.target.tabIndex = -1
    next.tabIndex = 0
    next.focus()
  })
}

const message = document.getElementById("prompt")
if (message instanceof HTMLTextAreaElement) {
  for (const table of document.querySelectorAll("table.diff")) rove(table)
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest(".comment-on") : null
    if (!(button instanceof HTMLButtonElement)) return
    event.preventDefault()
    open(button, message)
  })
}
