/** The connection of a terminal, between its frame and the service. */

const frame = document.getElementById("terminal")
const state = document.getElementById("terminal-state")
const open = document.getElementById("terminal-open")
const end = document.getElementById("terminal-end")

/** @type {Record<number, string>} */
const CLOSED = { 4401: "Your access ended.", 4404: "The sandbox was deleted.", 1001: "The service is restarting." }

/** @param {string} text */
const tell = (text) => {
  if (state !== null) state.textContent = text
}

/** @param {HTMLElement | null} button @param {boolean} isShown */
const show = (button, isShown) => {
  if (button !== null) button.hidden = !isShown
}

if (frame instanceof HTMLIFrameElement && open instanceof HTMLButtonElement) {
  /** Why a terminal ended. @type {Record<string, string>} */
  const reasons = JSON.parse(frame.dataset["reasons"] ?? "{}")
  /** @type {WebSocket | null} */
  let socket = null
  let size = { columns: 80, rows: 24 }
  const { port1: port, port2 } = new MessageChannel()

  /** @param {object} message */
  const say = (message) => {
    if (socket !== null && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message))
  }

  const connect = () => {
    show(open, false)
    tell("Connecting…")
    const address = new URL(`${frame.dataset["socket"]}&columns=${size.columns}&rows=${size.rows}`, location.href)
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:"
    const made = new WebSocket(address)
    made.binaryType = "arraybuffer"
    socket = made
    let last = ""
    made.addEventListener("message", ({ data }) => {
      if (typeof data !== "string") return port.postMessage({ type: "output", bytes: new Uint8Array(data) })
      const message = JSON.parse(data)
      switch (message.type) {
        case "attached":
          show(end, true)
          tell("Connected")
          // The scrollback comes again.
          return port.postMessage({ type: "told", text: "\u001bc" })
        case "heartbeat":
          return say({ type: "heartbeat" })
        case "skipped":
          return port.postMessage({ type: "told", text: `\r\n[${message.bytes} bytes skipped]\r\n` })
        case "refused":
          last = message.message
          return undefined
        case "ended":
          last = reasons[message.reason] ?? "The terminal ended."
          return undefined
      }
    })
    made.addEventListener("close", ({ code }) => {
      show(end, false)
      show(open, true)
      tell(last || CLOSED[code] || "The connection broke.")
    })
  }

  port.onmessage = ({ data }) => {
    if (data.type === "leave") return open.hidden ? end?.focus() : open.focus()
    if (data.type === "keys") {
      if (socket !== null && socket.readyState === WebSocket.OPEN) {
        // The service takes messages of 64 KiB.
        for (let at = 0; at < data.bytes.length; at += 32768) socket.send(data.bytes.subarray(at, at + 32768))
      }
      return undefined
    }
    if (data.type === "resize") size = { columns: Math.min(data.columns, 1000), rows: Math.min(data.rows, 1000) }
    if (data.type === "resize") say({ type: "resize", ...size })
    if (data.type === "taken" && data.bytes > 0) say({ type: "taken", bytes: data.bytes })
    if (data.type === "resize" && socket === null) connect()
  }

  // Either of the two may have loaded first. The frame has no origin that could be named.
  let hasBegun = false
  addEventListener("message", ({ data, source }) => {
    if (source !== frame.contentWindow || data !== "ready" || hasBegun) return
    hasBegun = true
    frame.contentWindow?.postMessage("terminal", "*", [port2])
  })
  frame.contentWindow?.postMessage("hello", "*")
  open.addEventListener("click", connect)
  end?.addEventListener("click", () => say({ type: "end" }))
}
