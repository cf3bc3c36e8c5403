/**
 * Completes what is typed: names of files after `@` in fields with `data-names`, and commands at the start of a message where the page has
 * a list of them. Without it the text is sent as it is.
 */

/** A quick series of keys causes one request. */
const TYPING_MS = 150
/** Characters before the caret that are looked at. */
const LOOKED_AT = 1_000

const base = document.documentElement.dataset["base"] ?? ""

const list = document.createElement("div")
list.id = "completions"
list.className = "completions"
list.setAttribute("role", "listbox")
list.setAttribute("aria-label", "Suggestions")
list.hidden = true

/** The field that is completed. @type {HTMLTextAreaElement | null} */
let field = null
/** Where the completed text begins in it. */
let from = 0
let timer = 0
let asked = 0

const options = () => [...list.children].filter((option) => option instanceof HTMLElement)

/** @param {HTMLElement | undefined} option */
const select = (option) => {
  for (const other of options()) other.ariaSelected = String(other === option)
  field?.setAttribute("aria-activedescendant", option?.id ?? "")
  option?.scrollIntoView({ block: "nearest" })
}

const close = () => {
  clearTimeout(timer)
  asked++
  list.hidden = true
  list.replaceChildren()
  for (const name of ["aria-activedescendant", "aria-autocomplete", "aria-controls"]) field?.removeAttribute(name)
  field = null
}

/** @param {HTMLTextAreaElement} by @param {number} start @param {ReadonlyArray<Element>} found */
const show = (by, start, found) => {
  if (found.length === 0) return close()
  field = by
  from = start
  const place = by.closest(".dock") ?? by.parentElement
  if (list.parentElement !== place) place?.append(list)
  list.replaceChildren(...found)
  options().forEach((option, i) => option.id = `completion-${i}`)
  list.hidden = false
  by.setAttribute("aria-autocomplete", "list")
  by.setAttribute("aria-controls", list.id)
  select(options()[0])
}

/** The text before the caret that can be completed, and where it begins. @param {HTMLTextAreaElement} by */
const typedIn = (by) => {
  const { selectionEnd: end, selectionStart, value } = by
  if (selectionStart !== end) return null
  if (/^\/[a-z]*$/u.test(value) && end === value.length) return { start: 0, text: value, isCommand: true }
  const name = /(?:^|[\s(])@([^\s@]*)$/u.exec(value.slice(Math.max(0, end - LOOKED_AT), end))?.[1]
  return name === undefined ? null : { start: end - name.length, text: name, isCommand: false }
}

/** @param {string} text */
const commandsFor = (text) => {
  const commands = document.getElementById("message-commands")
  if (!(commands instanceof HTMLTemplateElement)) return []
  return [...commands.content.children].flatMap((option) =>
    option instanceof HTMLElement && option.dataset["text"]?.startsWith(text) === true && option.dataset["text"] !== text
      ? [/** @type {HTMLElement} */ (option.cloneNode(true))]
      : []
  )
}

/** @param {HTMLTextAreaElement} by @param {string} path */
const namesFor = async (by, path) => {
  const query = new URLSearchParams({ path })
  for (const name of ["repo", "ref"]) {
    const value = by.form?.querySelector(`[name=${name}]`)
    if (value instanceof HTMLInputElement) query.set(name, value.value.trim())
  }
  const answer = await fetch(`${base}${by.dataset["names"]}?${query}`).catch(() => null)
  if (answer?.ok !== true || answer.redirected) return []
  return [...new DOMParser().parseFromString(await answer.text(), "text/html").querySelectorAll("[role=option]")]
}

/** @param {HTMLTextAreaElement} by */
const update = (by) => {
  clearTimeout(timer)
  const mine = ++asked
  const typed = typedIn(by)
  if (typed === null) return close()
  const { isCommand, start, text } = typed
  if (isCommand) return show(by, start, commandsFor(text))
  timer = setTimeout(async () => {
    const found = await namesFor(by, text)
    if (mine === asked && document.activeElement === by) show(by, start, found)
  }, TYPING_MS)
}

/** @param {HTMLElement} option */
const choose = (option) => {
  const by = field
  const { text = "" } = option.dataset
  if (by === null) return
  // Names of a folder follow at once.
  const more = text.startsWith("/") && from === 0 || text.endsWith("/") || /^\s/u.test(by.value.slice(by.selectionEnd)) ? "" : " "
  by.setRangeText(text + more, from, by.selectionEnd, "end")
  close()
  by.dispatchEvent(new Event("input", { bubbles: true }))
}

/** @param {KeyboardEvent} event */
const press = (event) => {
  if (list.hidden || event.target !== field || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return
  const all = options()
  const here = all.findIndex((option) => option.ariaSelected === "true")
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
  const option = all[here]
  if (step !== 0) select(all[(here + step + all.length) % all.length])
  else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey && option !== undefined) choose(option)
  else if (event.key === "Escape") close()
  else {
    if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) close()
    return
  }
  event.preventDefault()
  event.stopPropagation()
}

/** Begins to complete in the fields of this page. */
export const complete = () => {
  document.addEventListener("input", ({ target }) => {
    if (target instanceof HTMLTextAreaElement && target.dataset["names"] !== undefined) update(target)
  })
  document.addEventListener("keydown", press, true)
  document.addEventListener("focusout", ({ target }) => target === field && close())
  // The field keeps the focus.
  list.addEventListener("mousedown", (event) => event.preventDefault())
  list.addEventListener("click", ({ target }) => {
    const option = target instanceof Element ? target.closest("[role=option]") : null
    if (option instanceof HTMLElement) choose(option)
  })
  document.addEventListener("click", ({ target }) => target === field && close())
  document.addEventListener("submit", close)
}
