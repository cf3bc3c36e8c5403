/**
 * Draws a terminal in a frame without an origin. It talks to the page around it alone, through a port: bytes of output come in, keys and
 * sizes go out. A classic script, because a frame without an origin may load no modules.
 */
"use strict"

/** @typedef {{ readonly type: "output", readonly bytes: Uint8Array } | { readonly type: "told", readonly text: string }} Incoming */

{
  const dark = matchMedia("(prefers-color-scheme: dark)")
  const theme = () =>
    dark.matches
      ? { background: "#0b0d10", foreground: "#e8eaed", cursor: "#e8eaed", selectionBackground: "#3a4657" }
      : {
        background: "#ffffff",
        foreground: "#16191d",
        cursor: "#16191d",
        selectionBackground: "#c9d8f5",
        yellow: "#7a5a00",
        green: "#1a6b3f",
        cyan: "#0b5f7a",
        white: "#4d5965",
        brightYellow: "#6b4e00",
        brightGreen: "#155c35",
        brightCyan: "#0a5268",
        brightWhite: "#16191d"
      }

  // @ts-ignore xterm.js and xterm-fit.js are loaded before.
  const terminal = new Terminal({
    fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, \"Liberation Mono\", monospace",
    fontSize: 13,
    scrollback: 5000,
    screenReaderMode: true,
    minimumContrastRatio: 4.5,
    allowProposedApi: false,
    // Programs may not resize, raise or ask about the window.
    windowOptions: {},
    linkHandler: null,
    theme: theme()
  })
  // @ts-ignore
  const fit = new FitAddon.FitAddon()
  terminal.loadAddon(fit)

  // A program in the box is untrusted: what it writes must not come back as keys, nor reach the clipboard or the title.
  const ignore = () => true
  for (const number of [0, 1, 2, 4, 10, 11, 12, 52, 104, 110, 111, 112]) terminal.parser.registerOscHandler(number, ignore)
  // An answer to a query would be a pressed key for the shell. Device attributes, status and modes; DCS $q and +q.
  for (
    const id of [{ final: "c" }, { prefix: ">", final: "c" }, { prefix: "=", final: "c" }, { prefix: ">", final: "q" }, { final: "t" }, {
      prefix: "?",
      intermediates: "$",
      final: "p"
    }, { intermediates: "$", final: "p" }]
  ) terminal.parser.registerCsiHandler(id, ignore)
  for (const intermediates of ["$", "+"]) terminal.parser.registerDcsHandler({ intermediates, final: "q" }, ignore)

  const screen = document.getElementById("screen")
  if (screen !== null) terminal.open(screen)
  dark.addEventListener("change", () => {
    terminal.options.theme = theme()
  })

  /** @param {MessagePort} port */
  const begin = (port) => {
    terminal.onData((/** @type {string} */ keys) => port.postMessage({ type: "keys", bytes: new TextEncoder().encode(keys) }))
    terminal.onBinary((/** @type {string} */ keys) =>
      port.postMessage({ type: "keys", bytes: Uint8Array.from(keys, (key) => key.charCodeAt(0) & 255) })
    )
    terminal.attachCustomKeyEventHandler((/** @type {KeyboardEvent} */ event) => {
      if (!(event.ctrlKey && event.key === "F6")) return true
      if (event.type === "keydown") port.postMessage({ type: "leave" })
      return false
    })
    const size = () => {
      fit.fit()
      port.postMessage({ type: "resize", columns: terminal.cols, rows: terminal.rows })
    }
    port.onmessage = ({ data }) => {
      /** @type {Incoming} */
      const message = data
      if (message.type === "told") return terminal.write(message.text)
      terminal.write(message.bytes, () => port.postMessage({ type: "taken", bytes: message.bytes.length }))
    }
    new ResizeObserver(size).observe(document.body)
    size()
    terminal.focus()
  }

  // Either of the two may have loaded first.
  let hasBegun = false
  addEventListener("message", ({ data, ports: [port], source }) => {
    if (source !== parent || hasBegun) return
    if (data === "hello") parent.postMessage("ready", "*")
    if (data !== "terminal" || port === undefined) return
    hasBegun = true
    begin(port)
  })
  parent.postMessage("ready", "*")
}
