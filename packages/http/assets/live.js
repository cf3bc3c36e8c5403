/**
 * Keeps the page of one sandbox up to date: follows its event stream from where the page was rendered, and decides
 * approvals without loading the page again. Without it the page is as it was when it was loaded, and its forms work.
 */

/**
 * @typedef {"prompt" | "text" | "reasoning" | "tool" | "note" | "problem"} Kind
 * @typedef {{ readonly key: string, readonly kind: Kind, readonly text: string, readonly state: string }} Item
 * @typedef {"tool" | "state" | "decision" | "error" | "command" | "output"} ToolCallField
 * @typedef {{ readonly [field in ToolCallField]: string }} ToolCall
 * @typedef {{ readonly id?: string, readonly type: string, readonly ts: string, readonly turn_id?: string }} EventHead
 * @typedef {EventHead & { readonly data: Record<string, any> }} SandboxEvent
 */

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

/**
 * @param {ParentNode | null} within
 * @param {string} selector
 * @param {string} said
 */
const setText = (within, selector, said) => {
  const element = find(within, selector, HTMLElement)
  const text = visible(said)
  // What has not changed is not announced again.
  if (element !== null && element.textContent !== text) element.textContent = text
}

const page = find(document, "#live", HTMLElement)
/**
 * What is hidden in a text of others by its name, as the page has it: see `Visible.ts`.
 * @type {(text: string) => string}
 */
const visible = (text) => {
  hidden ??= new RegExp(words["hidden"]?.["pattern"] ?? "(?!)", "gu")
  return text.replace(hidden, (char) => {
    const code = char.codePointAt(0) ?? 0
    return `⟨${words["hidden"]?.[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`}⟩`
  })
}
/** @type {RegExp | undefined} */
let hidden
const sandbox = page?.dataset["sandbox"] ?? ""
/** What the page calls things: see `SandboxWords.ts`. @type {Record<string, Record<string, string>>} */
const words = JSON.parse(page?.dataset["words"] ?? "{}")
/**
 * What the page shows.
 * @type {{ cursor: number, status: string, turn: string | null, calls: ReadonlyArray<readonly [id: string, call: ToolCall]> }}
 */
const state = JSON.parse(page?.dataset["state"] ?? `{"calls":[]}`)
/** The path of the service at its host: see `Edge.ts`. */
const base = document.documentElement.dataset["base"] ?? ""
const api = `${base}/api/public/v1/sandboxes/${sandbox}`

/**
 * @param {string} table
 * @param {unknown} name
 */
const word = (table, name) => words[table]?.[String(name)] ?? String(name)

const SETTLED = ["succeeded", "failed", "terminated"]
const ALIVE = ["queued", "creating", "running"]

// ---- what is shown

/** @param {string} text */
const connection = (text) => setText(document, "#connection", text)

/** For who does not see it. What the agent writes is not among it: that would never end. @param {string} text */
const announce = (text) => setText(document, "#announcement", text)

/** Nobody is signed in any more. */
const signInAgain = () => {
  const line = find(document, "#connection", HTMLElement)
  if (line === null) return
  const link = document.createElement("a")
  link.href = `${base}/sign-in?next=${encodeURIComponent(`/sandboxes/${sandbox}`)}`
  link.textContent = "Sign in again"
  line.replaceChildren("Your session has ended. ", link)
}

/** @param {string} text @param {boolean} isProblem */
const outcome = (text, isProblem) => {
  const line = find(document, "#outcome", HTMLElement)
  if (line === null) return
  line.className = text === "" ? "" : isProblem ? "problem" : "told"
  line.textContent = visible(text)
}

/** @param {HTMLElement} element */
const applies = (element) => {
  switch (element.dataset["when"]) {
    case "turn":
      return state.status === "running" && state.turn !== null
    case "idle":
      return state.status === "running" && state.turn === null
    case "alive":
      return ALIVE.includes(state.status)
    default:
      return state.status === "running"
  }
}

const showCommands = () => {
  for (const element of document.querySelectorAll("[data-when]")) {
    if (!(element instanceof HTMLElement)) continue
    const hadFocus = element.contains(document.activeElement)
    element.hidden = !applies(element)
    if (hadFocus && element.hidden) find(document, "#conversation-title", HTMLElement)?.focus()
  }
}

/** How a turn ended, and why. @param {Record<string, any>} data */
const ended = ({ reason, state }) =>
  reason === undefined || state === "succeeded" ? word("turn", state) : `${word("turn", state)}: ${word("turnReason", reason)}`

/** What several events tell of one tool call, by its id. */
const calls = new Map(state.calls)

/**
 * As `Conversation.ts` has it.
 * @param {SandboxEvent} event
 * @returns {Item | null}
 */
const itemOf = ({ data, id, turn_id: turn, type }) => {
  /** @type {(key: string, kind: Kind, text: string, state?: string) => Item} */
  const item = (key, kind, text, state = "") => ({ key, kind, text, state })
  /** @type {(id: string, more: Partial<ToolCall>) => Item} */
  const call = (id, more) => {
    const known = { tool: "A tool call", state: "", decision: "", error: "", command: "", output: "", ...calls.get(id), ...more }
    calls.set(id, known)
    const error = known.error.toLowerCase() === known.decision.toLowerCase() ? "" : known.error
    const command = known.command === known.tool ? "" : known.command
    const lines = [known.tool, command, known.decision, error, known.output.replace(/\n+$/u, "")]
    return item(`tool:${id}`, "tool", lines.filter((line) => line !== "").join("\n"), known.state)
  }
  switch (type) {
    case "sandbox.status":
      return item(
        `event:${id}`,
        data["status"] === "failed" ? "problem" : "note",
        data["reason"] === null ? word("status", data["status"]) : `${word("status", data["status"])}. ${word("reason", data["reason"])}`
      )
    case "sandbox.boot":
      return item(`event:${id}`, "note", `Boot: ${data["stage"]}${data["repo"] === undefined ? "" : ` ${data["repo"]}`}, ${data["ms"]} ms`)
    case "sandbox.error":
      return item(`event:${id}`, "problem", data["message"])
    case "turn.started":
      return item(`prompt:${turn}`, "prompt", data["text"])
    case "turn.updated":
      return data["text"] !== undefined
        ? item(`prompt:${turn}`, "prompt", data["text"])
        : data["reason"] === "interrupt"
        ? item(`interrupt:${turn}`, "note", "An interrupt was asked for")
        : null
    case "turn.completed":
      return item(`turn:${turn}`, data["state"] === "failed" ? "problem" : "note", ended(data))
    case "message.updated":
      return item(data["part_id"], data["kind"] === "reasoning" ? "reasoning" : "text", data["text"])
    case "message.completed":
      return data["finish"] === "end_turn" ? null : item(`finish:${data["message_id"]}`, "note", word("finish", data["finish"]))
    case "tool.updated":
      return call(data["call_id"], {
        tool: data["tool"],
        state: word("tool", data["status"]),
        error: data["error"] ?? "",
        ...(data["detail"]?.command === undefined ? {} : { command: data["detail"].command }),
        ...(data["detail"]?.output === undefined ? {} : { output: data["detail"].output })
      })
    case "approval.requested":
      return call(data["approval_id"], {
        tool: data["tool"],
        ...(data["preview"]?.command === undefined ? {} : { command: data["preview"].command })
      })
    case "approval.resolved": {
      const [outcome, because] = [word("approval", data["outcome"]), word("approvalBy", data["by"])]
      return call(data["approval_id"], { decision: because === "" ? outcome : `${outcome}: ${because}` })
    }
    case "pull_request.updated": {
      const { action_state, error, number, repo } = data
      const pull = `Pull request of ${repo}${number === undefined ? "" : ` #${number}`}`
      const said = error === undefined ? word("action", action_state) : error["message"]
      return item(`event:${id}`, error === undefined ? "note" : "problem", said === "" ? pull : `${pull}: ${said}`)
    }
    default:
      return null
  }
}

const conversation = find(document, "#conversation", HTMLElement)
/** @type {Map<string, HTMLElement>} */
const items = new Map()
for (const element of conversation?.children ?? []) {
  if (element instanceof HTMLElement) items.set(element.dataset["key"] ?? "", element)
}

/** @param {Item} item @param {string} ts */
const showItem = ({ key, kind, state, text }, ts) => {
  const template = find(document, "#item-template", HTMLTemplateElement)
  const element = items.get(key) ?? find(template?.content ?? null, "li", HTMLElement)?.cloneNode(true)
  if (!(element instanceof HTMLElement)) return
  if (!items.has(key)) {
    // The first prompt was there before its turn had a name.
    if (kind === "prompt") items.get("prompt:first")?.remove()
    element.dataset["key"] = key
    items.set(key, element)
    conversation?.append(element)
  }
  element.className = `item ${kind}`
  setText(element, ".who", word("who", kind))
  setText(element, ".item-text", text)
  const badge = find(element, ".state", HTMLElement)
  if (badge !== null) {
    badge.textContent = state
    badge.hidden = state === ""
  }
  const time = find(element, "time", HTMLTimeElement)
  if (time !== null) {
    time.dateTime = ts
    time.textContent = ts.slice(11, 19)
  }
}

const approvals = () => find(document, "#approval-list", HTMLElement)

/** @param {string} id */
const approvalOf = (id) =>
  Array.from(approvals()?.children ?? []).find((element) => element instanceof HTMLElement && element.dataset["approval"] === id) ?? null

const showApprovals = () => {
  const section = find(document, "#approvals", HTMLElement)
  if (section !== null) section.hidden = (approvals()?.childElementCount ?? 0) === 0
}

/** @param {Record<string, any>} data */
const addApproval = ({ approval_id: id, expires_at: expires, kind = "", paths = [], preview = {}, tool }) => {
  if (approvalOf(id) !== null) return
  const template = find(document, "#approval-template", HTMLTemplateElement)
  const card = find(template?.content ?? null, "li", HTMLElement)?.cloneNode(true)
  if (!(card instanceof HTMLElement)) return
  card.dataset["approval"] = id
  const form = find(card, "form", HTMLFormElement)
  if (form !== null) form.action = `/sandboxes/${sandbox}/approvals/${encodeURIComponent(id)}`
  setText(card, "[data-field=tool]", tool)
  setText(card, "[data-field=paths]", paths.join(", "))
  for (const field of ["command", "url", "diff"]) setText(card, `[data-field=${field}]`, preview[field] ?? "")
  setText(card, "[data-field=expires]", `Counts as denied from ${String(expires).slice(11, 16)} UTC`)
  for (const about of card.querySelectorAll("[data-field=about]")) about.textContent = ` ${visible(tool)}`
  const badge = find(card, "[data-field=kind]", HTMLElement)
  if (badge !== null) {
    badge.textContent = kind
    badge.hidden = kind === ""
  }
  approvals()?.append(card)
  showApprovals()
  announce(`The agent asks to be allowed: ${tool}`)
}

/** @param {string} id */
const removeApproval = (id) => {
  const card = approvalOf(id)
  const hadFocus = card?.contains(document.activeElement) === true
  card?.remove()
  showApprovals()
  const title = (approvals()?.childElementCount ?? 0) === 0 ? "#conversation-title" : "#approvals-title"
  if (hadFocus) find(document, title, HTMLElement)?.focus()
}

/** Only addresses of the web become links. @param {string} url @param {string} text */
const linkTo = (url, text) => {
  if (!/^https?:\/\//iu.test(url)) return document.createTextNode(visible(text))
  const link = document.createElement("a")
  link.href = url
  link.rel = "noreferrer"
  link.textContent = visible(text)
  return link
}

/** What the source host says of it now. @param {HTMLElement} element @param {string} repo */
const refreshPull = async (element, repo) => {
  const response = await fetch(`${api}/pull-request?repo=${encodeURIComponent(repo)}`).catch(() => null)
  if (response === null || !response.ok) return
  const { checks, comments, pullRequest } = await response.json()
  if (pullRequest !== null) {
    find(element, "[data-field=link]", HTMLElement)?.replaceChildren(linkTo(pullRequest.url, `#${pullRequest.number} ${pullRequest.title}`))
  }
  setText(element, "[data-field=checks]", checks.label)
  const list = document.createElement("ul")
  for (const { conclusion, name, status, url } of checks.checkRuns.length > 0 ? checks.checkRuns : checks.runs) {
    const line = document.createElement("li")
    line.append(linkTo(url, name), visible(`: ${conclusion ?? status}`))
    list.append(line)
  }
  const count = document.createElement("p")
  count.className = "fine"
  count.textContent = comments.length === 1 ? "1 comment" : `${comments.length} comments`
  find(element, "[data-field=runs]", HTMLElement)?.replaceChildren(...(list.childElementCount > 0 ? [list, count] : [count]))
}

/** @param {Record<string, any>} data */
const showPull = ({ action_state, draft, error, merged, number, repo, state }) => {
  const element = Array.from(document.querySelectorAll(".pull")).find((pull) =>
    pull instanceof HTMLElement && pull.dataset["repo"]?.toLowerCase() === String(repo).toLowerCase()
  )
  if (!(element instanceof HTMLElement)) return
  const action = word("action", action_state)
  if (action !== "") setText(element, "[data-field=state]", action)
  else if (number !== undefined) {
    setText(element, "[data-field=state]", merged ? "Merged" : state === "closed" ? "Closed" : draft ? "Draft" : "Open")
  } else if (find(element, "[data-field=link]", HTMLElement)?.textContent === "") setText(element, "[data-field=state]", "Not published")
  const problem = find(element, "[data-field=problem]", HTMLElement)
  if (problem !== null) {
    problem.textContent = error === undefined
      ? ""
      : error["code"] === "invalid_request"
      ? "There was nothing to publish."
      : visible(error["message"])
    problem.hidden = error === undefined
  }
  const isUnderWay = action_state === "publishing" || action_state === "updating"
  const button = find(element, "button", HTMLButtonElement)
  if (button !== null) {
    button.disabled = isUnderWay
    if (number !== undefined) button.textContent = "Update the pull request"
  }
  if (number !== undefined && !isUnderWay) void refreshPull(element, repo)
}

/** @param {Record<string, any>} data */
const showStatus = ({ reason = null, status }) => {
  state.status = status
  const badge = find(document, "#status .state", HTMLElement)
  if (badge !== null) {
    badge.className = `state ${word("tone", status)}`
    badge.textContent = word("status", status)
  }
  setText(document, "#reason", reason === null ? "" : word("reason", reason))
  announce(`${word("status", status)}. ${reason === null ? "" : word("reason", reason)}`)
  const error = find(document, "#error", HTMLElement)
  if (error !== null && status !== "failed") error.hidden = true
}

/** @param {SandboxEvent} event */
const show = (event) => {
  const { data, ts, type } = event
  const item = itemOf(event)
  if (item !== null) showItem(item, ts)
  switch (type) {
    case "sandbox.status":
      showStatus(data)
      break
    case "sandbox.error":
      setText(document, "#error", data["message"])
      find(document, "#error", HTMLElement)?.removeAttribute("hidden")
      break
    case "turn.started":
    case "turn.updated":
    case "turn.completed": {
      const now = type === "turn.started" ? "running" : data["state"]
      state.turn = ["pending", "running", "awaiting_approval"].includes(now) ? now : null
      setText(document, "#turn", word("turn", now))
      if (state.turn === null) announce(word("turn", now))
      break
    }
    case "approval.requested":
      addApproval(data)
      break
    case "approval.resolved":
      removeApproval(data["approval_id"])
      break
    case "pull_request.updated":
      showPull(data)
      break
    case "usage.updated":
      setText(document, "#cost", `$${(data["usage"].costMicroUsd / 1_000_000).toFixed(4)}`)
      setText(document, "#requests", String(data["usage"].llmRequestCount))
      break
  }
  showCommands()
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
const receive = ({ data }) => {
  wait = FIRST_WAIT
  connection("Live")
  /** @type {SandboxEvent} */
  const event = JSON.parse(data)
  if (event.id === undefined) return
  const id = Number(event.id)
  // A connection that was made again may repeat what came.
  if (id <= state.cursor) return
  state.cursor = id
  show(event)
}

const retryLater = () => {
  connection("Reconnecting…")
  timer = setTimeout(follow, wait)
  wait = Math.min(LONGEST_WAIT, wait * 2)
}

/** The browser gave up and does not tell why: asks what the stream was refused with. */
const decide = async () => {
  const asked = source
  const response = await fetch(`${api}/events?after=${state.cursor}&limit=1`).catch(() => null)
  if (source !== asked) return
  switch (response?.status) {
    case 200: {
      const { data } = await response.json()
      return SETTLED.includes(state.status) && data.length === 0 ? end(() => connection("Ended")) : retryLater()
    }
    case 401:
      return end(signInAgain)
    case 400:
    case 403:
    case 404:
    case 410:
      return end(() => connection("This page cannot be followed any longer. Load it again."))
    default:
      return retryLater()
  }
}

function open() {
  stop()
  if (state.cursor === first) connection("Connecting…")
  const opened = new EventSource(`${api}/events/stream?since=${state.cursor}`)
  source = opened
  opened.onopen = () => {
    connection("Live")
  }
  opened.onmessage = receive
  opened.onerror = () => {
    if (source !== opened) return
    // It tries again by itself, and says which event it saw last, unless it gave up or there is nothing to come.
    if (opened.readyState !== EventSource.CLOSED && !SETTLED.includes(state.status)) return connection("Reconnecting…")
    opened.close()
    void decide()
  }
}

/** Browsers have few connections to a server, and pages that nobody looks at must not take them all. */
const follow = () => {
  if (isOver) return
  if (document.visibilityState === "visible") return open()
  stop()
  connection("Paused")
}

// ---- commands

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

/**
 * @param {HTMLFormElement} form
 * @param {string} path
 * @param {object} body
 * @param {(result: { readonly outcome: string, readonly rejection?: string }) => void} done
 */
const command = async (form, path, body, done) => {
  setBusy(form, true)
  outcome("", false)
  const csrf = find(form, "input[name=csrf]", HTMLInputElement)?.value ?? ""
  const response = await fetch(`${api}/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-csrf-token": csrf },
    body: JSON.stringify(body)
  }).catch(() => null)
  const said = await response?.json().catch(() => null) ?? null
  setBusy(form, false)
  if (response?.status === 401) return end(signInAgain)
  if (response === null || !response.ok) return outcome(said?.error?.message ?? "It did not arrive. Try again.", true)
  if (said.outcome === "rejected") return outcome(word("rejection", said.rejection), true)
  done(said)
}

document.addEventListener("submit", (event) => {
  const form = event.target
  if (!(form instanceof HTMLFormElement)) return
  if (isBusy(form)) return event.preventDefault()
  const approval = form.closest("[data-approval]")
  if (approval instanceof HTMLElement && event.submitter instanceof HTMLButtonElement) {
    event.preventDefault()
    const id = approval.dataset["approval"] ?? ""
    void command(form, `approvals/${encodeURIComponent(id)}`, { decision: event.submitter.value }, () => removeApproval(id))
  } else if (form.dataset["api"] === "interrupt") {
    event.preventDefault()
    void command(form, "interrupt", {}, () => outcome("The turn is being interrupted.", false))
  }
})

const first = state.cursor

if (page !== null) {
  if (SETTLED.includes(state.status)) end(() => connection("Ended"))
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
