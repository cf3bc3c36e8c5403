/**
 * Keeps the page of one sandbox up to date: follows its stream of pieces from where the page was rendered, puts them in the place of
 * those that are there, and sends forms without loading the page again. Without it the page is as it was when it was loaded, and its
 * forms work.
 */
import { attach } from "./attach.js"
import { complete } from "./complete.js"
import { keepDraft } from "./draft.js"
import { morph, parsed } from "./morph.js"
import { keepEnd } from "./reel.js"
import { fold, tellSince } from "./steps.js"
import { tellTimes } from "./times.js"
import { lookAgain, tellWaiting } from "./waiting.js"

/**
 * @template {Element} E
 * @param {ParentNode | null} within
 * @param {string} selector
 * @param {new () => E} kind
 * @returns {E | null}
 */
const find = (within, selector, kind) => {
  const element = within?.querySelector(selector)
  return element instanceof kind ? element : null
}

const page = find(document, "#live", HTMLElement)
const address = page?.dataset["stream"] ?? ""
let cursor = page?.dataset["cursor"] ?? ""

// ---- what is shown

/** @param {string} text */
const connection = (text) => {
  const line = find(document, "#connection", HTMLElement)
  // An unchanged line is not announced again.
  if (line === null || line.textContent === text) return
  line.textContent = text
  line.classList.toggle("live", text === "Live")
}

/** The session has ended. */
const signInAgain = () => {
  const base = document.documentElement.dataset["base"] ?? ""
  const link = document.createElement("a")
  link.href = `${base}/sign-in?next=${encodeURIComponent(location.pathname.slice(base.length))}`
  link.textContent = "Sign in again"
  find(document, "#connection", HTMLElement)?.replaceChildren("Your session has ended. ", link)
}

const conversation = find(document, "#conversation", HTMLElement)
/** @type {Map<string, Element>} */
const items = new Map()
for (const element of conversation?.querySelectorAll("[data-key]") ?? []) {
  if (element instanceof HTMLElement) items.set(element.dataset["key"] ?? "", element)
}

/** Items of one key replace each other. @param {HTMLElement} item */
const showItem = (item) => {
  const key = item.dataset["key"] ?? ""
  const old = items.get(key)
  const { becomes } = item.dataset
  if (becomes !== undefined) {
    // It stays where it is, and has a name now.
    if (old === undefined) return
    items.delete(key)
    items.set(becomes, old)
    old.setAttribute("data-key", becomes)
  } else if (old !== undefined) morph(old, item)
  else {
    items.set(key, item)
    conversation?.append(item)
  }
}

/** Where the reader is when what they were at is gone: at what is left of it, or where the next thing happens. @param {Element} piece */
const after = (piece) => {
  const title = find(piece, "[tabindex='-1']", HTMLElement)
  return title?.checkVisibility() === true ? title : find(document, "#conversation-title", HTMLElement)
}

/** Those that say how long something has been there. */
const TIMES = ".comments time, .approval time"
const TELL_TIMES_MS = 30_000

/** A press that was meant for the card before is not one for the card in its place. */
const INERT_MS = 400

const cards = () => [...document.querySelectorAll("#approvals .approval")].flatMap((card) => card instanceof HTMLElement ? [card] : [])
let known = cards().map(({ id }) => id)

/** New cards take no press for a moment, and the first one takes the focus where nothing has it. */
const guardCards = () => {
  const now = cards()
  const fresh = now.filter(({ id }) => !known.includes(id) || id === now[0]?.id && id !== known[0])
  known = now.map(({ id }) => id)
  for (const card of fresh) {
    const form = find(card, "form", HTMLFormElement)
    if (form === null || isBusy(form)) continue
    setBusy(form, true)
    setTimeout(() => setBusy(form, false), INERT_MS)
  }
  if (fresh.length > 0 && (document.activeElement === null || document.activeElement === document.body)) now[0]?.focus()
}

/** The event that each piece on the page is as of, by id. @type {Map<string, number>} */
const shownAt = new Map()

/**
 * Puts pieces in the place of those that the page has, unless these are newer: the answer to a form may come after what the stream tells.
 * @param {Document} pieces @param {number} asOf the event that the pieces are as of
 */
const show = (pieces, asOf) => {
  const followed = keepEnd()
  for (const piece of pieces.querySelectorAll("[data-piece]")) {
    if (!(piece instanceof HTMLElement)) continue
    if (piece.dataset["changes"] !== undefined) {
      for (const item of [...piece.children]) if (item instanceof HTMLElement) showItem(item)
      continue
    }
    const old = document.getElementById(piece.id)
    if (old === null || (shownAt.get(piece.id) ?? 0) > asOf) continue
    shownAt.set(piece.id, asOf)
    morph(old, piece, () => after(old))
  }
  if (conversation !== null) fold(conversation)
  guardCards()
  followed()
  tellTimes(TIMES)
  tellSince()
  tellWaiting()
}

// ---- the stream

const FIRST_WAIT = 1_000
const LONGEST_WAIT = 30_000
let wait = FIRST_WAIT
/** @type {EventSource | null} */
let source = null
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer

/** There is nothing more to follow. */
let isOver = false

const stop = () => {
  clearTimeout(timer)
  source?.close()
  source = null
}

/** @param {() => void} tell */
const end = (tell) => {
  stop()
  isOver = true
  tell()
}

/** @param {MessageEvent<string>} message */
const receive = ({ data, lastEventId }) => {
  wait = FIRST_WAIT
  connection("Live")
  if (lastEventId !== "") cursor = lastEventId
  show(parsed(data), Number(cursor))
}

const retryLater = () => {
  connection("Reconnecting…")
  timer = setTimeout(follow, wait)
  wait = Math.min(LONGEST_WAIT, wait * 2)
}

/** Whether the page had a stream before: what of it was lost is told again. */
let isBack = false

const streamAddress = () => `${address}?since=${cursor}${isBack ? "&back" : ""}`

/** The browser gave up and does not tell why: asks what the stream was refused with. */
const decide = async () => {
  const asked = source
  const asking = new AbortController()
  const response = await fetch(streamAddress(), { headers: { accept: "text/event-stream" }, signal: asking.signal }).catch(() => null)
  const status = response?.status
  asking.abort()
  if (source !== asked) return
  switch (status) {
    case 204:
      return end(() => connection("Ended"))
    case 401:
      return end(signInAgain)
    case 400:
    case 403:
    case 404:
      return end(() => connection("Reload to continue."))
    default:
      return retryLater()
  }
}

function open() {
  stop()
  if (cursor === page?.dataset["cursor"]) connection("Connecting…")
  const opened = new EventSource(streamAddress())
  isBack = true
  source = opened
  opened.onopen = () => {
    connection("Live")
  }
  opened.onmessage = receive
  opened.addEventListener("over", () => end(() => connection("Ended")))
  opened.onerror = () => {
    if (source !== opened) return
    // It tries again by itself, and says what it saw last, unless it gave up.
    if (opened.readyState !== EventSource.CLOSED) return connection("Reconnecting…")
    void decide()
  }
}

/** Browsers have few connections to a server, and hidden pages must not take them all. */
const follow = () => {
  if (isOver) return
  if (document.visibilityState === "visible") return open()
  stop()
  connection("Paused")
}

// ---- forms

/**
 * Whether what the form asked for is under way. A button that is disabled would lose the focus.
 * @param {HTMLFormElement} form
 */
const isBusy = (form) => form.ariaBusy === "true"

/** @param {HTMLFormElement} form @param {boolean} busy */
const setBusy = (form, busy) => {
  form.ariaBusy = String(busy)
  for (const button of form.querySelectorAll("button")) button.ariaDisabled = String(busy)
}

const OUTCOME_MS = 6_000
/** @type {ReturnType<typeof setTimeout> | undefined} */
let fading

/**
 * Beside the form, until the next one or, where all went well, for a while. A link stays, because somebody may be about to follow it.
 * @param {string} kind @param {...(string | Node)} content
 */
const outcome = (kind, ...content) => {
  clearTimeout(fading)
  const line = document.createElement("p")
  line.className = kind
  line.append(...content)
  if (kind === "told" && content.length > 0 && line.querySelector("a") === null) fading = setTimeout(() => outcome("told"), OUTCOME_MS)
  find(document, "#outcome", HTMLElement)?.replaceChildren(...(content.length === 0 ? [] : [line]))
}

/** @param {HTMLFormElement} form */
const hasFiles = (form) =>
  form.querySelector("input[type=file]") instanceof HTMLInputElement && [...new FormData(form)].some(
    ([, value]) => value instanceof File && value.name !== ""
  )

/** @param {HTMLFormElement} form @param {HTMLElement | null} submitter */
const fieldsOf = (form, submitter) => {
  const fields = new URLSearchParams()
  for (const [name, value] of new FormData(form, submitter)) if (typeof value === "string") fields.append(name, value)
  return fields
}

/** Puts the text of a message that was taken back above the text that is being typed. @param {Document} said */
const fill = (said) => {
  const { fill = "", text = "" } = find(said, "[data-fill]", HTMLElement)?.dataset ?? {}
  const field = document.getElementById(fill)
  if (!(field instanceof HTMLTextAreaElement)) return
  field.value = field.value === "" ? text : `${text}\n\n${field.value}`
  field.dispatchEvent(new Event("input", { bubbles: true }))
  field.focus()
}

/** Forms that were submitted again before the answer came, and the button. @type {Map<HTMLFormElement, HTMLElement | null>} */
const submittedAgain = new Map()

/** @param {HTMLFormElement} form @param {HTMLElement | null} submitter */
const send = async (form, submitter) => {
  submittedAgain.delete(form)
  setBusy(form, true)
  outcome("told")
  const body = hasFiles(form) ? new FormData(form, submitter) : fieldsOf(form, submitter)
  body.append("live", "yes")
  const typed = String(fieldsOf(form, null))
  const response = await fetch(form.action, { method: "POST", body }).catch(() => null)
  const said = parsed(await response?.text().catch(() => "") ?? "")
  setBusy(form, false)
  // A visitor without a session is led to signing in.
  if (response?.redirected === true) return end(signInAgain)
  if (response?.ok !== true) return outcome("problem", find(said, "main p", HTMLElement)?.textContent ?? "Couldn't send. Try again.")
  const { className, childNodes = [] } = find(said, "p", HTMLElement) ?? {}
  // Text that was typed since is the next message.
  const isNext = String(fieldsOf(form, null)) !== typed
  if (className === "told" && !isNext) form.reset()
  const leads = find(said, "[data-leads]", HTMLAnchorElement)
  if (leads !== null) return location.assign(leads.href)
  outcome(className ?? "told", ...childNodes)
  show(said, Number(find(said, "[data-as-of]", HTMLElement)?.dataset["asOf"] ?? cursor))
  fill(said)
  const again = submittedAgain.get(form)
  // The same text twice is a second click.
  if (again !== undefined && isNext) form.requestSubmit(again instanceof HTMLButtonElement && again.form === form ? again : null)
}

/** A field that has too much says so, and is not sent. @param {EventTarget | null} field */
const checkLength = (field) => {
  if (!(field instanceof HTMLTextAreaElement) || field.dataset["longest"] === undefined) return
  const longest = Number(field.dataset["longest"])
  const length = field.value.length <= longest ? 0 : [...field.value].length
  const counts = [length, longest].map((count) => count.toLocaleString("en"))
  field.setCustomValidity(length <= longest ? "" : `Up to ${counts[1]} characters (yours: ${counts[0]}).`)
}
document.addEventListener("input", ({ target }) => checkLength(target))
for (const form of document.querySelectorAll("form[data-draft]")) {
  if (!(form instanceof HTMLFormElement)) continue
  keepDraft(form)
  for (const field of form.elements) checkLength(field)
}

document.addEventListener("submit", (event) => {
  const form = event.target
  if (!(form instanceof HTMLFormElement) || form.dataset["live"] === undefined) return
  event.preventDefault()
  if (isBusy(form)) submittedAgain.set(form, event.submitter)
  else void send(form, event.submitter)
})

attach()
complete()

// With Ctrl or ⌘, Enter sends what is typed.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return
  if (!(event.target instanceof HTMLTextAreaElement) || event.target.form?.id !== "message") return
  event.preventDefault()
  event.target.form.requestSubmit(find(event.target.form, "button", HTMLButtonElement))
})

/** Views change without loading the page: all of them are on it. */
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("[data-to]") : null
  const workspace = find(document, ".workspace", HTMLElement)
  if (!(link instanceof HTMLAnchorElement) || workspace === null || page === null) return
  if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
  event.preventDefault()
  workspace.dataset["view"] = link.dataset["to"]
  for (const other of document.querySelectorAll("[data-to]")) other.removeAttribute("aria-current")
  link.setAttribute("aria-current", "page")
  history.replaceState(null, "", link.href)
})
document.addEventListener("click", ({ target }) => {
  for (const menu of document.querySelectorAll(".menu[open]")) {
    if (target instanceof Node && !menu.contains(target)) menu.removeAttribute("open")
  }
})

if (page !== null) {
  tellTimes(TIMES)
  setInterval(() => tellTimes(TIMES), TELL_TIMES_MS)
  tellSince()
  setInterval(tellSince, 1000)
  // The stream is of this sandbox alone, and pauses while the page is hidden.
  lookAgain()
  if (page.dataset["over"] !== undefined) end(() => connection("Ended"))
  else follow()
  const now = () => {
    wait = FIRST_WAIT
    follow()
  }
  addEventListener("online", now)
  document.addEventListener("visibilitychange", now)
  // A connection that is lost may stay open for long.
  addEventListener("offline", () => {
    if (isOver) return
    stop()
    retryLater()
  })
}
