/**
 * Single keys. Off while somebody types, and for good by a choice in the help. No key does what cannot be undone: those for publishing and
 * ending go to the button, which is pressed by Enter.
 */

const OFF = "slipway:keys"
const help = document.getElementById("keys-help")
const choice = document.getElementById("keys-on")

const isOn = () => {
  try {
    return localStorage.getItem(OFF) !== "off"
  } catch {
    return true
  }
}

if (choice instanceof HTMLInputElement) {
  choice.checked = isOn()
  choice.addEventListener("change", () => {
    try {
      localStorage.setItem(OFF, choice.checked ? "on" : "off")
    } catch { /* It holds for this page only if nothing is kept. */ }
  })
}

/** @param {string} selector */
const seen = (selector) => [...document.querySelectorAll(selector)].filter((item) => item.checkVisibility())

/**
 * Moves the focus from the item that has it.
 * @param {ReadonlyArray<Element>} all
 * @param {number} step
 * @param {(item: Element) => Element | null} whole what has the focus within counts as the item
 */
const move = (all, step, whole = (item) => item) => {
  const here = all.findIndex((item) => whole(item)?.contains(document.activeElement))
  const next = all[here < 0 ? step > 0 ? 0 : all.length - 1 : Math.min(Math.max(here + step, 0), all.length - 1)]
  if (!(next instanceof HTMLElement)) return
  if (next.matches(".approval")) next.tabIndex = -1
  next.focus()
  return next
}

/** @param {number} step */
const moveItem = (step) => move(seen("[data-item] th a, [data-item] h3 a, .approval"), step)

/** Changed files are one below the other, or in a list of links. @param {number} step */
const moveFile = (step) => {
  const files = seen(".changed-file > summary")
  if (files.length === 0) move(seen(".changes a"), step)
  else move(files, step, (file) => file.parentElement)?.scrollIntoView()
}

/** Gives the focus to the first of them that can be seen, and can be used. @param {string} selector */
const focusOn = (selector) => {
  const [first] = seen(selector).filter((item) => !item.matches(":disabled, [aria-disabled=true]"))
  if (first instanceof HTMLElement) first.focus()
  return first
}

/** Whether all of it is on the screen: nothing of it is scrolled away, neither on the page nor within it. @param {Element} card */
const isWhollySeen = (card) => {
  const { bottom, left, right, top } = card.getBoundingClientRect()
  // A fraction of a pixel is lost in rounding.
  const isWithin = (/** @type {{ top: number, left: number, bottom: number, right: number }} */ room) =>
    top >= room.top - 1 && left >= room.left - 1 && bottom <= room.bottom + 1 && right <= room.right + 1
  if (!isWithin({ top: 0, left: 0, bottom: document.documentElement.clientHeight, right: document.documentElement.clientWidth })) {
    return false
  }
  for (let around = card.parentElement; around !== null && around !== document.body; around = around.parentElement) {
    if (getComputedStyle(around).overflow !== "visible" && !isWithin(around.getBoundingClientRect())) return false
  }
  return [...card.querySelectorAll("pre, .diff-box, .asked")].every(({ clientHeight, clientWidth, scrollHeight, scrollWidth }) =>
    scrollHeight <= clientHeight + 1 && scrollWidth <= clientWidth + 1
  )
}

/** Presses the button of the approval that has the focus, if all of it can be seen. @param {"approve" | "deny"} decision */
const decide = (decision) => {
  const card = document.activeElement?.closest(".approval") ?? null
  if (card === null) return
  const button = card.querySelector(`button[value="${decision}"]`)
  if (!isWhollySeen(card)) card.scrollIntoView({ block: "nearest" })
  else if (button instanceof HTMLButtonElement) button.click()
}

/** @param {string} keys */
const go = (keys) => {
  const link = help?.querySelector(`[data-keys="${keys}"]`)
  if (link instanceof HTMLAnchorElement) location.assign(link.href)
}

/** @type {Readonly<Record<string, () => void>>} */
const actions = {
  j: () => moveItem(1),
  k: () => moveItem(-1),
  a: () => decide("approve"),
  d: () => decide("deny"),
  n: () => {
    if (focusOn("#compose-prompt") === undefined) go("n")
  },
  r: () => void focusOn("#prompt"),
  i: () => {
    const button = focusOn("#commands [action$='/interrupt'] button")
    if (button instanceof HTMLButtonElement) button.click()
  },
  p: () => void focusOn("[action$='/pull-request'] button, #commands [href$='view=pull']"),
  e: () => {
    const link = document.querySelector("#facts [href$='/terminate']")
    link?.closest("details")?.setAttribute("open", "")
    if (link instanceof HTMLElement) link.focus()
  },
  "]": () => moveFile(1),
  "[": () => moveFile(-1),
  v: () => {
    const box = document.activeElement?.closest(".file-box")
    const [head, viewed] = [box?.querySelector("summary"), box?.querySelector(".viewed input")]
    if (!(viewed instanceof HTMLInputElement)) return
    // The focus would be folded away with the file.
    head?.focus()
    if (!viewed.checked) viewed.click()
    moveFile(1)
  },
  "/": () => {
    const search = document.getElementById("search")
    search?.focus()
    if (search instanceof HTMLInputElement) search.select()
  },
  "?": () => {
    if (help instanceof HTMLDialogElement && !help.open) help.showModal()
  }
}

/** A key that is held acts once. */
const ONCE = ["a", "d", "i", "v"]
/** The first key of two counts for this long. */
const FIRST_MS = 2000
/** When `g` was pressed, if the next key belongs to it. */
let firstAt = -Infinity

document.addEventListener("keydown", (event) => {
  const { altKey, ctrlKey, isComposing, key, metaKey, repeat, target, timeStamp } = event
  // Some keyboards type brackets with AltGr, which also counts as Ctrl and Alt.
  const isChord = (altKey || ctrlKey || metaKey) && !event.getModifierState("AltGraph")
  if (isChord || isComposing || event.defaultPrevented || document.querySelector("dialog[open]") !== null) return
  if (target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null) {
    // A checkbox of a row takes no letters.
    if (!(target instanceof HTMLInputElement && target.type === "checkbox")) return
  }
  // The help tells how to turn the keys on again.
  if (!isOn() && key !== "?") return
  const isSecond = timeStamp - firstAt < FIRST_MS
  firstAt = key === "g" && !isSecond ? timeStamp : -Infinity
  const action = isSecond ? /^[a-z]$/u.test(key) ? () => go(`g ${key}`) : undefined : actions[key]
  if (action === undefined || repeat && ONCE.includes(key)) return
  event.preventDefault()
  action()
})
