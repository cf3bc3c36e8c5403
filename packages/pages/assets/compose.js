/** Improves the form of a new sandbox: drafts, what belongs to the chosen model, repositories for what is typed. */
import { attach } from "./attach.js"
import { complete } from "./complete.js"
import { keepDraft } from "./draft.js"

/** A quick series of keys causes one request. */
const TYPING_MS = 200

/** A form that was sent is not sent again. @param {HTMLFormElement} form */
const sendOnce = (form) => {
  const { forget } = keepDraft(form)
  let isSent = false
  form.addEventListener("submit", (event) => {
    if (isSent) return event.preventDefault()
    isSent = true
    forget()
  })
  // Back from the page that it led to.
  addEventListener("pageshow", () => isSent = false)
}

/**
 * Only what the chosen model has can be chosen.
 * @param {HTMLFormElement} form
 */
const followModel = (form) => {
  const model = form.querySelector("#compose-model")
  const effort = form.querySelector("#compose-effort")
  const approvals = form.querySelector("#compose-approvals")
  const asks = approvals?.querySelector("[value=prompt]")
  if (!(model instanceof HTMLSelectElement) || !(approvals instanceof HTMLSelectElement) || !(asks instanceof HTMLOptionElement)) return
  const follow = () => {
    const { approvals: canAsk, efforts = "" } = model.selectedOptions[0]?.dataset ?? {}
    const listed = efforts.split(" ")
    if (effort instanceof HTMLSelectElement) {
      for (const option of effort.options) option.hidden = option.disabled = option.value !== "" && !listed.includes(option.value)
      if (effort.selectedOptions[0]?.disabled !== false) effort.value = ""
    }
    asks.disabled = canAsk === "no"
    if (asks.disabled && asks.selected) approvals.value = "auto"
  }
  form.addEventListener("change", follow)
  follow()
}

/**
 * @param {HTMLFormElement} form
 * @param {HTMLDataListElement} list
 */
const suggest = (form, list) => {
  let timer = 0
  let asked = 0
  form.addEventListener("input", ({ target }) => {
    if (!(target instanceof HTMLInputElement) || target.name !== "repo") return
    clearTimeout(timer)
    timer = setTimeout(async () => {
      const mine = ++asked
      const answer = await fetch(
        `${document.documentElement.dataset["base"] ?? ""}/new/repositories?search=${encodeURIComponent(target.value.trim())}`
      ).catch(() => null)
      if (answer?.ok !== true) return
      const text = await answer.text()
      if (mine !== asked) return
      const found = new DOMParser().parseFromString(`<datalist>${text}</datalist>`, "text/html").querySelector("datalist")
      if (found !== null) list.replaceChildren(...found.children)
    }, TYPING_MS)
  })
}

/**
 * The open pull requests of the first repository, read when the field is entered.
 * @param {HTMLInputElement} field
 * @param {HTMLInputElement} repo
 * @param {HTMLDataListElement} list
 */
const choosePull = (field, repo, list) => {
  let known = ""
  const look = async () => {
    const name = repo.value.trim()
    if (name === known) return
    known = name
    list.replaceChildren()
    const base = document.documentElement.dataset["base"] ?? ""
    const answer = await fetch(`${base}${field.dataset["pulls"]}?repo=${encodeURIComponent(name)}`).catch(() => null)
    if (answer?.ok !== true) {
      known = ""
      return
    }
    const text = await answer.text()
    if (name !== known) return
    const found = new DOMParser().parseFromString(`<datalist>${text}</datalist>`, "text/html").querySelector("datalist")
    if (found !== null) list.replaceChildren(...found.children)
  }
  field.addEventListener("focus", look)
}

/** Ctrl or ⌘ and Enter in the task sends the form. @param {HTMLFormElement} form */
const sendByKey = (form) => {
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return
    event.preventDefault()
    form.requestSubmit()
  })
}

const form = document.getElementById("compose")
const list = document.getElementById("repositories")
if (form instanceof HTMLFormElement) {
  sendOnce(form)
  followModel(form)
  sendByKey(form)
  attach()
  complete()
  if (list instanceof HTMLDataListElement) suggest(form, list)
  const [pull, repo, pulls] = ["continue-pull", "repo-0", "pulls"].map((id) => document.getElementById(id))
  if (pull instanceof HTMLInputElement && repo instanceof HTMLInputElement && pulls instanceof HTMLDataListElement) {
    choosePull(pull, repo, pulls)
  }
  for (const details of form.querySelectorAll("details[data-typed]")) {
    if ([...details.querySelectorAll("input[name=repo]")].some((field) => field instanceof HTMLInputElement && field.value !== "")) {
      details.setAttribute("open", "")
    }
  }
}
