/**
 * Makes the pictures of `docs/pictures`: the pages of this checkout, with content that the offline agent makes over the API.
 * `npm run pictures`. Needs Chromium; `SLIPWAY_CHROMIUM` names it if it is not `/usr/bin/chromium`.
 */
import { Effect } from "effect"
import { spawn, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import path from "node:path"
import { within } from "./pictures/Palette.mjs"

const root = path.resolve(import.meta.dirname, "..")
const { chromium } = createRequire(path.join(root, "packages/slipway/package.json"))("playwright-core")
const SampleRepository = await import("../packages/slipway/src/service/SampleRepository.ts")

const OUT = path.join(root, "docs/pictures")
const MAX_BYTES = 150_000
const WIDE = { width: 1120, height: 1000 }
const PHONE = { width: 360, height: 1000 }
const TIME = 120_000

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
    const { status, stderr, stdout } = spawnSync(process.execPath, [command, ...args], { env, cwd: folder, encoding: "utf8" })
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

/** Removes the script of the offline agent from the page. */
const withoutScripts = (page) =>
  page.evaluate(() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      if (node.nodeValue.includes("[[")) node.nodeValue = node.nodeValue.slice(0, node.nodeValue.indexOf("[[")).trimEnd()
    }
  })

const takeAll = async (browser) => {
  const folder = mkdtempSync(path.join(tmpdir(), "slipway-pictures-"))
  let server
  try {
    const repository = path.join(folder, "shop")
    mkdirSync(repository)
    await Effect.runPromise(SampleRepository.make(repository))
    server = await serve(folder)
    server.run("repos", "add", "acme/shop", repository)
    const { asks, begins, create, over, publish } = apiOf(server)
    const context = await browser.newContext({ baseURL: server.url, reducedMotion: "reduce", viewport: WIDE })
    const page = await context.newPage()
    await page.goto(server.link)
    await page.getByRole("textbox", { name: "Code" }).fill(server.link)
    await page.getByRole("button", { name: "Sign in", exact: true }).click()
    await page.getByRole("navigation", { name: "Main" }).waitFor()

    const taken = {}
    /** `ready`: what has to be visible first, because it comes with the stream. */
    const take = async (name, address, { ready, viewport = WIDE } = {}) => {
      await page.setViewportSize(viewport)
      const response = await page.goto(address)
      if (response.status() !== 200) throw new Error(`${address}: ${response.status()}`)
      if (ready !== undefined) await page.locator(ready).first().waitFor({ timeout: 5000 }).catch(() => undefined)
      await withoutScripts(page)
      await page.evaluate(() => document.querySelector("[autofocus]")?.blur())
      taken[name] = await page.screenshot()
    }
    await page.goto("/new")
    const prompt = page.locator("textarea").first()
    await prompt.fill("Customers ask which currency that is. Show every price in euros, in one place, and document it.")
    await page.getByLabel("Repository", { exact: true }).fill("acme/shop")
    taken.composer = await page.screenshot()
    await prompt.fill("")

    const done = await create(DONE)
    await over(done)
    await publish(done)
    for (const one of [FAILED, READY]) await over(await create(one))
    const asking = await create(ASKS)
    await asks(asking)
    await begins(await create(WORKS))
    await create(WAITS)

    await take("list", "/sandboxes", { ready: "tbody tr" })
    await take("approval", `/sandboxes/${asking}`, { ready: "#approvals button" })
    await take("phone", `/sandboxes/${asking}`, { ready: "#approvals button", viewport: PHONE })
    await take("workspace", `/sandboxes/${done}`, { ready: "#changes a" })
    await take("changes", `/sandboxes/${done}/changes`)
    await take("files", `/sandboxes/${done}/files?${new URLSearchParams({ repo: "acme/shop", path: "src/prices.js" })}`)
    await take("pull", "/local/acme/shop/pulls/1")
    await context.close()
    return taken
  } finally {
    await server?.stop()
    rmSync(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 })
  }
}

const browser = await chromium.launch({
  executablePath: process.env.SLIPWAY_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"]
})
try {
  const taken = await takeAll(browser)
  mkdirSync(OUT, { recursive: true })
  for (const [name, png] of Object.entries(taken)) {
    const small = within(png, MAX_BYTES)
    writeFileSync(path.join(OUT, `${name}.png`), small)
    process.stdout.write(`${name}.png ${small.length} bytes\n`)
  }
} finally {
  await browser.close()
}
