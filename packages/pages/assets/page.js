/** Improves every page. Nothing here is needed: pages work without it. */

/**
 * The element with this id, if it is there and of that kind.
 * @template {HTMLElement} E
 * @param {string} id
 * @param {new () => E} kind
 * @returns {E | null}
 */
const find = (id, kind) => {
  const element = document.getElementById(id)
  return element instanceof kind ? element : null
}

/** The secret of a sign-in link came behind the `#`, which browsers send to no server: into the form, and out of the address. */
const takeCode = () => {
  const field = find("code", HTMLInputElement)
  const code = location.hash.slice(1)
  if (field === null || code === "") return
  field.value = code
  history.replaceState(null, "", location.pathname + location.search)
  find("sign-in", HTMLButtonElement)?.focus()
}

/** A secret that is shown once can be copied, and is gone when the page is: from the history, and from a page kept for going back. */
const guardSecret = () => {
  const field = find("secret", HTMLInputElement)
  const status = find("copied", HTMLElement)
  const copy = find("copy", HTMLButtonElement)
  const shown = find("shown-once", HTMLElement)
  if (field === null || shown === null) return
  // Loading again would send the form again.
  history.replaceState(null, "", shown.dataset["then"])
  addEventListener("pagehide", () => shown.remove())
  if (copy === null || status === null) return
  copy.hidden = false
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(field.value)
      status.textContent = "Copied"
    } catch {
      field.focus()
      field.select()
      status.textContent = "Press Ctrl+C (or ⌘C) to copy"
    }
  })
}

/** Signing out removes drafts and marks of viewed files, so that the next person does not see them. */
const forgetDrafts = () => {
  document.addEventListener("submit", ({ target }) => {
    if (!(target instanceof HTMLFormElement) || !/\/sign-out(?:\/everywhere)?$/u.test(target.action)) return
    try {
      for (const name of Object.keys(localStorage)) if (/^slipway:(?:draft:|viewed$)/u.test(name)) localStorage.removeItem(name)
    } catch { /* Nothing is kept. */ }
  })
}

forgetDrafts()
takeCode()
addEventListener("hashchange", takeCode)
guardSecret()
