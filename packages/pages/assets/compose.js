/** Improves the form of a new sandbox: drafts, what belongs to the chosen model, repositories for what is typed. */
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
  const asks = form.querySelector("#approvals-prompt")
  const summary = form.querySelector("#compose-summary")
  if (!(model instanceof HTMLSelectElement) || !(asks instanceof HTMLInputElement)) return
  const follow = () => {
    const { approvals, efforts = "" } = model.selectedOptions[0]?.dataset ?? {}
    const listed = efforts.split(" ")
    if (effort instanceof HTMLSelectElement) {
      for (const option of effort.options) option.hidden = option.disabled = option.value !== "" && !listed.includes(option.value)
      if (effort.selectedOptions[0]?.disabled !== false) effort.value = ""
    }
    asks.disabled = approvals === "no"
    if (asks.disabled && asks.checked) {
      const never = form.querySelector("#approvals-auto")
      if (never instanceof HTMLInputElement) never.checked = true
    }
    const chosen = effort instanceof HTMLSelectElement && effort.value !== "" ? [`effort ${effort.value}`] : []
    if (summary !== null) {
      summary.textContent = [model.value || "no model", ...chosen, asks.checked ? "asks first" : "never asks"].join(", ")
    }
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

const form = document.getElementById("compose")
const list = document.getElementById("repositories")
if (form instanceof HTMLFormElement) {
  sendOnce(form)
  followModel(form)
  if (list instanceof HTMLDataListElement) suggest(form, list)
  for (const details of form.querySelectorAll("details[data-typed]")) {
    if ([...details.querySelectorAll("input[name=repo]")].some((field) => field instanceof HTMLInputElement && field.value !== "")) {
      details.setAttribute("open", "")
    }
  }
}
