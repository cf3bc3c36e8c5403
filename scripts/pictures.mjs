/**
 * Makes the pictures of `docs/pictures` and their list: all pages of this checkout, wide and narrow, light and dark, with content that the
 * offline agent makes over the API. `npm run pictures`. Needs Chromium; `SLIPWAY_CHROMIUM` names it if it is not `/usr/bin/chromium`.
 */
import { Effect } from "effect"
import { spawn, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import path from "node:path"
import { within } from "./pictures/Palette.mjs"

const root = path.resolve(import.meta.dirname, "..")
const { chromium } = createRequire(path.join(root, "packages/slipway/package.json"))("playwright-core")
const SampleRepository = await import("../packages/slipway/src/service/SampleRepository.ts")

const OUT = path.join(root, "docs/pictures")
/** Bytes of one picture, and of all. */
const MAX_BYTES = 100_000
const MAX_ALL_BYTES = 6_000_000
const SIZES = [{ width: 1440, height: 900 }, { width: 390, height: 844 }]
const THEMES = ["light", "dark"]
const TIME = 120_000
/** How long a page may take to bring with its stream what its picture waits for. */
const READY_TIME = 10_000

/**
 * All pages, in the order of the list. `ready`: what the picture waits for, because it comes with the stream. `isOut`: for people who are
 * not signed in.
 */
const PAGES = [
  { name: "sign-in", title: "Sign in", address: () => "/sign-in", isOut: true },
  { name: "sandboxes", title: "Sandboxes", address: () => "/sandboxes", ready: "tbody tr" },
  {
    name: "new",
    title: "New sandbox",
    address: () => "/new",
    fill: "Customers ask which currency that is. Show every price in euros, in one place."
  },
  { name: "sandbox", title: "Sandbox", address: ({ done }) => `/sandboxes/${done}`, ready: "#changes a" },
  { name: "approval", title: "Sandbox that asks for an approval", address: ({ asking }) => `/sandboxes/${asking}`, ready: "#changes > *" },
  { name: "changes-view", title: "Sandbox: changes", address: ({ done }) => `/sandboxes/${done}?view=changes`, ready: "#changes a" },
  { name: "pull-view", title: "Sandbox: pull request", address: ({ done }) => `/sandboxes/${done}?view=pull`, ready: "#changes a" },
  { name: "checkpoints", title: "Sandbox: checkpoints", address: ({ done }) => `/sandboxes/${done}?view=checkpoints`, ready: "#changes a" },
  { name: "log", title: "Sandbox: log", address: ({ done }) => `/sandboxes/${done}?view=log`, ready: "#changes a" },
  { name: "changes", title: "Changed files", address: ({ done }) => `/sandboxes/${done}/changes` },
  { name: "files", title: "Files", address: ({ done }) => `/sandboxes/${done}/files?repo=acme/shop` },
  { name: "file", title: "File", address: ({ done }) => `/sandboxes/${done}/files?repo=acme/shop&path=src/prices.js` },
  { name: "fork", title: "Fork a checkpoint", address: ({ done }) => `/sandboxes/${done}/fork?checkpoint=1` },
  { name: "restore", title: "Restore a checkpoint", address: ({ done }) => `/sandboxes/${done}/restore?checkpoint=1` },
  { name: "terminate", title: "Terminate a sandbox", address: ({ done }) => `/sandboxes/${done}/terminate` },
  { name: "pulls", title: "Pull requests", address: () => "/pulls", ready: "tbody tr" },
  { name: "pull", title: "Pull request", address: () => "/local/acme/shop/pulls/1" },
  { name: "settings", title: "Settings: account", address: () => "/settings" },
  { name: "keys", title: "Settings: keys", address: () => "/keys" },
  { name: "members", title: "Settings: members", address: () => "/members" },
  { name: "repositories", title: "Settings: repositories", address: () => "/repositories" },
  { name: "secrets", title: "Settings: secrets", address: () => "/secrets" },
  { name: "models", title: "Settings: models", address: () => "/models" },
  { name: "webhooks", title: "Settings: webhooks", address: () => "/webhooks" },
  { name: "audit", title: "Settings: audit", address: () => "/audit" },
  { name: "usage", title: "Settings: usage", address: () => "/usage" },
  { name: "device", title: "Sign in a command", address: () => "/device" },
  { name: "not-found", title: "Unknown address", address: () => "/nowhere", status: 404 }
]

const fileOf = (name, { width }, theme) => `${name}-${width}-${theme}.png`

// ---- the service

const environmentOf = (folder) => ({
  PATH: process.env.PATH,
  TMPDIR: tmpdir(),
  XDG_STATE_HOME: path.join(folder, "state"),
  SLIPWAY_DATA_DIR: path.join(folder, "data"),
  SLIPWAY_PORT: "0",
  SLIPWAY_ISOLATION: "none",
  // The last of the sandboxes waits.
  SLIPWAY_WORKER_SLOTS: "1",
  SLIPWAY_RATE_LIMIT_PER_MINUTE: "100000"
})

const serve = async (folder) => {
  const command = path.join(root, "packages/slipway/bin/slipway.js")
  const env = environmentOf(folder)
  const run = (...args) => {
    const { status, stderr, stdout } = spawnSync(process.execPath, [command, ...args], {
      env,
      cwd: folder,
      encoding: "utf8",
      input: "a value\n"
    })
    if (status !== 0) throw new Error(`slipway ${args.join(" ")}: ${stderr}`)
    return stdout
  }
  const child = spawn(process.execPath, [command, "serve"], { env, cwd: folder })
  let output = ""
  const url = await new Promise((resolve, reject) => {
    const listen = (chunk) => {
      output += chunk
      const found = /^Slipway +(http:\S+)/mu.exec(output)?.[1]
      if (found !== undefined && output.includes("isolation") && /sbx_live_\w+\b/u.test(output) && output.endsWith("\n")) resolve(found)
    }
    child.stdout.on("data", listen)
    child.stderr.on("data", listen)
    child.once("exit", (code) => reject(new Error(`slipway serve ended (${code}): ${output}`)))
  })
  return {
    url,
    run,
    key: /sbx_live_\w+/u.exec(output)[0],
    link: /http\S+\/sign-in#\S+/u.exec(output)[0],
    stop: () =>
      new Promise((resolve) => {
        child.removeAllListeners("exit")
        child.once("exit", resolve)
        child.kill("SIGTERM")
      })
  }
}

// ---- the content

const PRICES = `export const prices = { lamp: 30, chair: 45, table: 120 }

/** A price as customers read it: \`30 €\`. */
export const shown = (thing) => \`\${prices[thing]} €\`
`
const SAID = `Prices are shown in euros now, by one function that every page can use:

- \`shown("lamp")\` is \`30 €\`
- an unknown thing fails loudly

\`\`\`js
console.log(shown("table")) // 120 €
\`\`\`

I also documented it in **docs/prices.md**.`
const escaped = (text) => text.replaceAll("]", "\\]")
const write = (file, content) => `[[write path=${file} content=${escaped(content)}]]`
const say = (text) => `[[say ${escaped(text)}]]`

/** A prompt for people, and what the offline agent does of it. */
const asked = (text, ...does) => [text, ...does].join(" ")

const DONE = {
  title: "Show prices in euros",
  prompt: asked(
    "Customers ask which currency that is. Show every price in euros, in one place, and document it.",
    say("I look at how prices are kept."),
    write("src/prices.js", PRICES),
    write("docs/prices.md", "# Prices\n\nIn euros.\n"),
    say(SAID)
  )
}
const FAILED = { title: "Import the old catalogue", prompt: asked("Import it.", "[[error The provider does not answer.]]") }
const READY = {
  title: "Sell benches as well",
  prompt: asked(
    "Add a bench.",
    write("src/catalogue.js", "export const things = [\"lamp\", \"chair\", \"table\", \"bench\"]\n"),
    say("There is a bench now.")
  )
}
const ASKS = {
  title: "Tidy the catalogue",
  prompt: asked(
    "Give every thing a name for customers, sorted.",
    say("The catalogue is a bare list of words. I give each thing a name, sort them, and leave what uses the list as it is."),
    write("src/catalogue.js", "export const things = [\n  { id: \"chair\", name: \"Chair\" },\n  { id: \"lamp\", name: \"Lamp\" }\n]\n")
  ),
  toolApprovalMode: "prompt"
}
const WORKS = {
  title: "Translate the documentation",
  prompt: asked("Into Danish, please.", say("I begin with docs/running.md."), "[[hang]]")
}
const WAITS = { title: "Write tests for the prices", prompt: asked("Cover every thing.", say("Done.")) }

const apiOf = ({ key, url }) => {
  const ask = async (method, address, body) => {
    const response = await fetch(`${url}/api/public/v1/sandboxes${address}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    if (!response.ok) throw new Error(`${method} ${address}: ${response.status} ${await response.text()}`)
    return response.json()
  }
  const until = async (id, of, isSo) => {
    for (const end = Date.now() + TIME;;) {
      const state = await ask("GET", `/${id}${of}`)
      if (isSo(state)) return
      if (Date.now() > end) throw new Error(`${id} did not get there: ${JSON.stringify(state).slice(0, 2000)}`)
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }
  return {
    create: async (creation) => (await ask("POST", "", { repos: [{ fullName: "acme/shop" }], ...creation })).id,
    publish: (id) => ask("POST", `/${id}/pull-request`),
    over: (id) => until(id, "", ({ status, turn }) => status === "running" && !turn.active),
    begins: (id) => until(id, "/events?limit=100", ({ data }) => data.some(({ type }) => type === "turn.started")),
    asks: (id) => until(id, "/events?limit=100", ({ data }) => data.some(({ type }) => type === "approval.requested"))
  }
}

// ---- the pictures

/** Gives times, ids and addresses, which differ from run to run, the same text, and leaves out the script of the agent. */
const withSameText = (page) =>
  page.evaluate(() => {
    const task = document.querySelector(".task")
    const scripts = document.createTreeWalker(task ?? document.createElement("p"), NodeFilter.SHOW_TEXT)
    for (let node = scripts.nextNode(); node !== null; node = scripts.nextNode()) {
      if (!node.nodeValue.includes("[[")) continue
      // Markdown makes elements of what is written in the script.
      const rest = document.createRange()
      rest.setStart(node, node.nodeValue.indexOf("[["))
      rest.setEndAfter(task.lastChild)
      rest.deleteContents()
      break
    }
    const SAME = [
      // The composer shows one script as an example.
      [/\s*\[\[(?!say Hello\]\])[^]*$/u, ""],
      [/\b\d{4}-\d\d-\d\d\b/gu, "2026-01-15"],
      [/\b\d{1,2}:\d\d(?::\d\d)?\b/gu, "09:30"],
      [/\b\d+(?:\.\d+)? (?:ms|s)\b/gu, "1.2 s"],
      [/\b(?:just now|\d+ (?:second|minute)s? ago)\b/gu, "1 minute ago"],
      [/\bin \d+ minutes\b/gu, "in 30 minutes"],
      [/\b127\.0\.0\.1:\d+\b/gu, "127.0.0.1:4000"],
      [/\bc_[0-9a-z]{12}\b/gu, "c_k3v9p2m7x4qa"],
      [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gu, "0197f0c2-5d1e-7a34-9c58-2b6f0e4d8a17"],
      [/\bsbx_live_…?\w+/gu, "sbx_live_…4fQ9"],
      [/\/\S*\/slipway-pictures-\w+/gu, "/srv"],
      [/\breq_\w+/gu, "req_01K9"],
      [/\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{40}\b/gu, "5e0c1b7a9d24f3860c7be1528fa4d6930b1e7c42"],
      [/\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,12}\b/gu, "5e0c1b7"]
    ]
    const same = (text) => SAME.reduce((told, [from, to]) => told.replaceAll(new RegExp(from, "gu"), to), text)
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const text = same(node.nodeValue)
      if (text !== node.nodeValue) node.nodeValue = text
    }
    for (const field of document.querySelectorAll("input[type=text], input:not([type]), textarea")) field.value = same(field.value)
    for (const line of document.querySelectorAll("#connection")) line.textContent = ""
    document.querySelector("[autofocus]")?.blur()
  })

/** One page in every size and theme. */
const takePage = async (page, made, { address, fill, name, ready, status = 200 }, keep) => {
  for (const size of SIZES) {
    await page.setViewportSize(size)
    const response = await page.goto(address(made))
    if (response.status() !== status) throw new Error(`${address(made)}: ${response.status()}`)
    if (ready !== undefined) await page.locator(ready).first().waitFor({ state: "attached", timeout: READY_TIME }).catch(() => undefined)
    if (fill !== undefined) await page.locator("textarea").first().fill(fill)
    await withSameText(page)
    for (const theme of THEMES) {
      await page.emulateMedia({ colorScheme: theme })
      keep(fileOf(name, size, theme), await page.screenshot({ animations: "disabled", caret: "hide" }))
    }
  }
}

/** The content of the pages. Returns the sandboxes that addresses name. */
const fillService = async (server) => {
  const { asks, begins, create, over, publish } = apiOf(server)
  server.run("secrets", "set", "NPM_TOKEN", "--grant", "default", "--repo", "acme/shop")
  server.run("members", "add", "ada-l")
  server.run("webhooks", "add", "https://hooks.example.org/slipway", "--grant", "default")
  const done = await create(DONE)
  await over(done)
  await publish(done)
  for (const one of [FAILED, READY]) await over(await create(one))
  const asking = await create(ASKS)
  await asks(asking)
  await begins(await create(WORKS))
  await create(WAITS)
  return { done, asking }
}

const takeAll = async (browser, keep) => {
  const folder = mkdtempSync(path.join(tmpdir(), "slipway-pictures-"))
  let server
  try {
    const repository = path.join(folder, "shop")
    mkdirSync(repository)
    await Effect.runPromise(SampleRepository.make(repository))
    server = await serve(folder)
    server.run("repos", "add", "acme/shop", repository)
    const made = await fillService(server)
    const context = await browser.newContext({ baseURL: server.url, reducedMotion: "reduce", locale: "en", timezoneId: "UTC" })
    const page = await context.newPage()
    for (const one of PAGES) if (one.isOut) await takePage(page, made, one, keep)
    await page.goto(server.link)
    await page.getByRole("textbox", { name: "Code" }).fill(server.link)
    await page.getByRole("button", { name: "Sign in", exact: true }).click()
    await page.getByRole("navigation", { name: "Main" }).waitFor()
    for (const one of PAGES) if (!one.isOut) await takePage(page, made, one, keep)
    await context.close()
  } finally {
    await server?.stop()
    rmSync(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 })
  }
}

// ---- the list

const listed = () => {
  const [wide, narrow] = SIZES
  const sections = PAGES.map(({ name, title }) => {
    const links = [["dark", wide, "dark"], ["narrow", narrow, "light"], ["narrow and dark", narrow, "dark"]].map(([text, size, theme]) =>
      `[${text}](${fileOf(name, size, theme)})`
    )
    return `## ${title}\n\n![${title}](${fileOf(name, wide, "light")})\n\n${links.join(", ")}\n`
  })
  return `# Pictures

For everybody who wants to see Slipway before installing it. The agent is the offline one, whose scripts are left out of the prompts. Times
and ids are the same in all pictures. \`npm run pictures\` makes them and this page again ([testing](../testing.md)).

${sections.join("\n")}`
}

const began = performance.now()
const browser = await chromium.launch({
  executablePath: process.env.SLIPWAY_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"]
})
try {
  mkdirSync(OUT, { recursive: true })
  const taken = new Map()
  await takeAll(browser, (file, png) => {
    const small = within(png, MAX_BYTES)
    taken.set(file, small)
    process.stdout.write(`${taken.size} of ${PAGES.length * SIZES.length * THEMES.length}: ${file}, ${small.length} bytes\n`)
  })
  const bytes = [...taken.values()].reduce((sum, { length }) => sum + length, 0)
  if (bytes > MAX_ALL_BYTES) throw new Error(`the pictures have ${bytes} bytes, at most ${MAX_ALL_BYTES}`)
  for (const file of readdirSync(OUT)) if (file.endsWith(".png")) rmSync(path.join(OUT, file))
  for (const [file, png] of taken) writeFileSync(path.join(OUT, file), png)
  writeFileSync(path.join(OUT, "README.md"), listed())
  process.stdout.write(`${taken.size} pictures, ${bytes} bytes, ${Math.round((performance.now() - began) / 1000)} s\n`)
} finally {
  await browser.close()
}
