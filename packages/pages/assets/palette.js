/**
 * The palette: finds sandboxes by titles and messages, pages, and what can be done on this page. A link leads to its page; a button only
 * gets the focus, so that nothing is done by a name that was typed. Without it the link to the search leads to the list of sandboxes.
 */

/** A quick series of keys causes one request. */
const TYPING_MS = 150
/** More buttons would hide the pages. */
const MAX_ACTIONS = 20

const palette = document.getElementById("palette")
const field = document.getElementById("palette-search")
const list = document.getElementById("palette-list")

/** The buttons of this page, by the options that stand for them. @type {Map<Element, HTMLElement>} */
const controls = new Map()
/** The sandboxes found last. @type {ReadonlyArray<Element>} */
let found = []
let timer = 0
let asked = 0

/** @param {Element} control */
const nameOf = (control) => (control.textContent ?? "").replaceAll(/\s+/gu, " ").trim()

/** Buttons that can be pressed now, without those of rows and lines; those in a menu are shown when they are chosen. */
const controlsHere = () =>
  [...document.querySelectorAll("main :is(button, a.button):not(table *)")].flatMap((control) =>
    control instanceof HTMLElement && !control.matches(":disabled, [aria-disabled=true], [hidden]") && nameOf(control) !== "" &&
      (control.checkVisibility() || control.closest(".menu") !== null)
      ? [control]
      : []
  ).slice(0, MAX_ACTIONS)

/** @param {HTMLElement} control */
const optionFor = (control) => {
  const option = document.createElement("div")
  option.setAttribute("role", "option")
  const what = document.createElement("span")
  what.className = "what"
  what.textContent = nameOf(control)
  const kind = document.createElement("span")
  kind.className = "fine"
  kind.textContent = "On this page"
  option.append(what, kind)
  controls.set(option, control)
  return option
}

/** @param {HTMLElement} within */
const optionsOf = (within) =>
  [...within.querySelectorAll("[role=option]")].filter((option) => option instanceof HTMLElement && !option.hidden)

/** @param {HTMLElement} within @param {HTMLElement} by @param {Element | undefined} option */
const select = (within, by, option) => {
  for (const other of within.querySelectorAll("[role=option]")) other.setAttribute("aria-selected", String(other === option))
  by.setAttribute("aria-activedescendant", option?.id ?? "")
  option?.scrollIntoView({ block: "nearest" })
}

/** @param {HTMLElement} within @param {HTMLInputElement} by */
const show = (within, by) => {
  const words = by.value.toLowerCase().split(/\s+/u)
  const before = within.querySelector("[aria-selected=true]")
  within.append(...found)
  within.querySelectorAll("[role=option]").forEach((option, i) => {
    option.id = `option-${i}`
    const text = nameOf(option).toLowerCase()
    // The service looked for what was typed.
    if (option instanceof HTMLElement) option.hidden = !found.includes(option) && !words.every((word) => text.includes(word))
  })
  const options = optionsOf(within)
  select(within, by, before !== null && options.includes(before) ? before : options[0])
}

/** @param {HTMLElement} within @param {HTMLInputElement} by */
const search = async (within, by) => {
  const mine = ++asked
  const base = document.documentElement.dataset["base"] ?? ""
  const answer = await fetch(`${base}/sandboxes/titles?search=${encodeURIComponent(by.value.trim())}`).catch(() => null)
  if (answer?.ok !== true || answer.redirected) return
  const text = await answer.text()
  if (mine !== asked) return
  for (const old of found) old.remove()
  found = [...new DOMParser().parseFromString(text, "text/html").querySelectorAll("[role=option]")]
  show(within, by)
}

/** @param {HTMLDialogElement} dialog @param {HTMLInputElement} by @param {HTMLElement} within */
const make = (dialog, by, within) => {
  const open = () => {
    for (const option of controls.keys()) option.remove()
    controls.clear()
    for (const old of found) old.remove()
    found = []
    by.value = ""
    within.prepend(...controlsHere().map(optionFor))
    within.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false")
    dialog.showModal()
    by.focus()
    show(within, by)
    void search(within, by)
  }
  const choose = (/** @type {Element} */ option) => {
    const control = controls.get(option)
    dialog.close()
    if (control === undefined) return
    control.closest("details")?.setAttribute("open", "")
    control.focus()
    if (control instanceof HTMLAnchorElement) control.click()
  }

  document.addEventListener("keydown", (event) => {
    const { altKey, ctrlKey, isComposing, key, metaKey, shiftKey } = event
    if (key.toLowerCase() !== "k" || ctrlKey === metaKey || altKey || shiftKey || isComposing) return
    event.preventDefault()
    if (document.querySelector("dialog[open]") === null) open()
  })
  for (const link of document.querySelectorAll("[data-palette]")) {
    link.addEventListener("click", (event) => {
      if (!(event instanceof MouseEvent) || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
      event.preventDefault()
      open()
    })
  }
  by.addEventListener("input", () => {
    // The first option is the best for what is typed now.
    select(within, by, undefined)
    show(within, by)
    clearTimeout(timer)
    timer = setTimeout(() => void search(within, by), TYPING_MS)
  })
  by.addEventListener("keydown", (event) => {
    if (event.isComposing) return
    const options = optionsOf(within)
    const here = options.findIndex((option) => option.ariaSelected === "true")
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
    const option = options[here]
    if (step !== 0) select(within, by, options[(here + step + options.length) % options.length])
    // Where nothing is found, the form leads to the list.
    else if (event.key === "Enter" && option instanceof HTMLElement) option.click()
    else return
    event.preventDefault()
  })
  within.addEventListener("click", ({ target }) => {
    const option = target instanceof Element ? target.closest("[role=option]") : null
    if (option !== null) choose(option)
  })
  dialog.addEventListener("click", ({ target }) => {
    // Beside it.
    if (target === dialog) dialog.close()
  })
}

if (palette instanceof HTMLDialogElement && field instanceof HTMLInputElement && list !== null) make(palette, field, list)
