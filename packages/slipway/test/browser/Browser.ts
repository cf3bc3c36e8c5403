/**
 * A real service and a real Chromium before it. A page that throws, logs an error or breaks its own security policy fails
 * the test, whatever else it shows.
 */
import { assert } from "@effect/vitest"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { ConfigProvider, Context, Effect, Layer, Redacted } from "effect"
import { existsSync, mkdirSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import path from "node:path"
import { type BrowserContext, type BrowserContextOptions, chromium, type Frame, type Page } from "playwright-core"
import * as Storage from "../../src/service/storage/Storage.ts"
import * as Settings from "../../src/settings/Settings.ts"
import { folder, serve, type Server } from "../commands/SlipwayProcess.ts"

const EXECUTABLE = process.env["SLIPWAY_CHROMIUM"] ?? "/usr/bin/chromium"

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync"
]

const SCREENSHOTS = process.env["SLIPWAY_SCREENSHOTS"] ?? path.resolve(import.meta.dirname, "../../test-output/screenshots")

/** Where recorded visits are kept, as traces of Playwright; none are without it. */
const RECORDINGS = process.env["SLIPWAY_RECORDINGS"]

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

export interface Visit {
  readonly options?: BrowserContextOptions
  /** Statuses of pages that the test brings about: the browser logs each as an error. */
  readonly refused?: ReadonlyArray<number>
  /** The test takes the network away: requests may fail. */
  readonly drops?: boolean
  /** Errors of the console that the test brings about beside those. */
  readonly expected?: RegExp
  /** The name of its trace, where `SLIPWAY_RECORDINGS` keeps them. */
  readonly recording?: string
}

const launch = Effect.acquireRelease(
  Effect.promise(() => {
    if (!existsSync(EXECUTABLE)) {
      throw new Error(
        `There is no Chromium at ${EXECUTABLE}. Install it (apt-get install chromium), or say where it is with SLIPWAY_CHROMIUM.`
      )
    }
    return chromium.launch({ executablePath: EXECUTABLE, args: FLAGS, timeout: 60_000 })
  }),
  (browser) => Effect.promise(() => browser.close())
)

/** Fails on forbidden events of a page. */
const watch = (page: Page, { drops = false, expected: blocked, options, refused = [] }: Visit, problems: Array<string>) => {
  // Chromium without scripts says of those that a page names that they are not allowed.
  const isWithout = options?.javaScriptEnabled === false
  page.on("pageerror", (error) => problems.push(`${page.url()}: ${error.stack}`))
  page.on("console", (message) => {
    const text = message.text()
    const expected = /^Failed to load resource: the server responded with a status of (\d+)/u.exec(text)?.[1]
    if (blocked?.test(text) === true) return
    if (drops && /^Failed to load resource: net::/u.test(text)) return
    if (message.type() === "error" && !refused.includes(Number(expected))) problems.push(`${page.url()}: ${text}`)
  })
  page.on("requestfailed", (request) => {
    const { errorText } = request.failure() ?? {}
    if (isWithout && request.resourceType() === "script" && errorText === "csp") return
    if (errorText !== "net::ERR_ABORTED" && !drops) problems.push(`${request.url()}: ${errorText}`)
  })
}

export class Browser extends Context.Service<Browser, {
  readonly server: Server
  /** Runs `use` in a browser that knows nothing yet, and fails with whatever went wrong on its pages. */
  visit<A>(use: (page: Page, context: BrowserContext) => Promise<A>, visit?: Visit): Effect.Effect<A>
}>()("slipway/test/Browser") {
  /** The service with the stores it works on, so that a test can change what people cannot. */
  static readonly layer = (settings: Readonly<Record<string, string>> = {}) =>
    Layer.unwrap(Effect.gen(function*() {
      const data = yield* folder
      const environment = { DATABASE_URL: yield* TestPostgres.database(Migrations.layer), SLIPWAY_ISOLATION: "none", ...settings }
      const server = yield* serve(data, environment)
      const browser = yield* launch
      const known = yield* Settings.load.pipe(
        Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ ...environment, SLIPWAY_DATA_DIR: data }))),
        Effect.orDie
      )
      const visit = <A>(use: (page: Page, context: BrowserContext) => Promise<A>, given: Visit = {}) =>
        Effect.promise(async () => {
          const context = await browser.newContext({ baseURL: server.url, reducedMotion: "reduce", ...given.options })
          const problems: Array<string> = []
          const recording = RECORDINGS === undefined || given.recording === undefined
            ? null
            : path.join(RECORDINGS, `${given.recording}.zip`)
          try {
            context.setDefaultTimeout(120_000)
            await context.addInitScript(() =>
              document.addEventListener(
                "securitypolicyviolation",
                ({ blockedURI, violatedDirective }) => reportError(new Error(`security policy: ${violatedDirective} ${blockedURI}`))
              )
            )
            context.on("page", (page) => watch(page, given, problems))
            if (recording !== null) await context.tracing.start({ screenshots: true, snapshots: true })
            const result = await use(await context.newPage(), context)
            assert.deepStrictEqual(problems, [])
            return result
          } finally {
            if (recording !== null) await context.tracing.stop({ path: recording })
            await context.close()
          }
        })
      return Layer.succeed(Browser, { server, visit }).pipe(Layer.provideMerge(Storage.layer(known, false)))
    }))
}

// ---------------------------------------------------------------------------------------------------------------
// People

/** A link for the owner, or for whom the handle names. */
export const linkFor = Effect.fnUntraced(function*(handle: string | null = null) {
  const { server } = yield* Browser
  const userId = handle === null ? (yield* (yield* MemberStore).owner).userId : (yield* (yield* Members).user(handle)).id
  return `${server.url}/sign-in#${Redacted.value(yield* (yield* Sessions).makeLink(userId))}`
})

/** A member of the owner's organization, who is approved. */
export const memberNamed = Effect.fnUntraced(function*(login: string) {
  yield* (yield* Access).createGrant("default")
  const members = yield* Members
  yield* members.add(null, login, "member")
  return yield* members.approve(login)
})

/** With and without scripts. */
export const signIn = async (page: Page, link: string) => {
  await page.goto(link)
  await page.getByRole("textbox", { name: "Code" }).fill(link)
  await page.getByRole("button", { name: "Sign in", exact: true }).click()
  await page.getByRole("navigation", { name: "Main" }).waitFor()
}

/** Tab leads everywhere. */
export const keysOf = (page: Page) => {
  const focused = () => page.evaluate(() => [document.activeElement?.id ?? "", document.activeElement?.textContent?.trim() ?? ""])
  return {
    focused: async () => (await focused()).find((name) => name !== "") ?? "",
    /** Moves on until the element of this id or text has the focus, which can be seen. */
    tabTo: async (wanted: string, key: "Tab" | "Shift+Tab" = "Tab") => {
      for (let i = 0; i < 200; i++) {
        if ((await focused()).includes(wanted)) {
          const style = await page.evaluate(() => document.activeElement && getComputedStyle(document.activeElement).outlineStyle)
          assert.notStrictEqual(style, "none", `${wanted} shows no focus`)
          return
        }
        await page.keyboard.press(key)
      }
      assert.fail(`${wanted} cannot be reached`)
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------
// Rules of every page

/** Between inspections. */
const USUAL = { width: 1280, height: 800 }
const WIDE = { width: 1440, height: 900 }
const NARROW = { width: 390, height: 844 }

interface AxeResult {
  readonly id: string
  readonly help: string
  readonly nodes: ReadonlyArray<{ readonly html: string; readonly failureSummary?: string }>
}

/** The violations of WCAG 2.2 AA and of best practice. Through the debugger: the page's policy lets no script in. */
const violations = async (page: Page, shown: Page | Frame = page): Promise<ReadonlyArray<string>> => {
  const session = await page.context().newCDPSession(shown)
  try {
    await session.send("Runtime.evaluate", { expression: AXE })
    // A frame may have no network, for style sheets neither.
    const options = JSON.stringify({ runOnly: RULES, resultTypes: ["violations"], preload: shown === page })
    const { exceptionDetails, result } = await session.send("Runtime.evaluate", {
      expression: `axe.run(document, ${options}).then(({ violations }) => JSON.stringify(violations))`,
      awaitPromise: true
    })
    if (exceptionDetails !== undefined) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text)
    const found: ReadonlyArray<AxeResult> = JSON.parse(String(result.value))
    return found.map(({ help, id, nodes }) =>
      `${id}: ${help}\n${nodes.map(({ failureSummary, html }) => `  ${html}\n  ${failureSummary}`).join("\n")}`
    )
  } finally {
    await session.detach()
  }
}

/** The faults of the page in light and dark, wide and narrow: violations of axe, and scrolling sideways. */
export const faultsOf = async (page: Page, name: string, picture = (_where: string): Promise<unknown> => Promise.resolve()) => {
  const found: Array<string> = []
  for (const [size, viewport] of [["wide", WIDE], ["narrow", NARROW]] as const) {
    await page.setViewportSize(viewport)
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme })
      const where = `${name}, ${size}, ${colorScheme}`
      found.push(...(await violations(page)).map((text) => `${where}: ${text}`))
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
      if (wider !== 0) found.push(`${where} scrolls sideways, by ${wider} pixels`)
      await picture(`${name}-${size}-${colorScheme}.png`)
    }
  }
  await page.setViewportSize(USUAL)
  await page.emulateMedia({ colorScheme: "light" })
  return found
}

/** Fails for a frame of another process that has violations of axe, in light and dark. */
export const inspectFrame = async (page: Page, frame: Frame) => {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme })
    assert.deepStrictEqual(await violations(page, frame), [], colorScheme)
  }
  await page.emulateMedia({ colorScheme: "light" })
}

/** Fails for a page with faults. Keeps pictures of it. */
export const inspect = async (page: Page, name: string) => {
  mkdirSync(SCREENSHOTS, { recursive: true })
  const picture = (file: string) => page.screenshot({ path: path.join(SCREENSHOTS, file), fullPage: true })
  assert.deepStrictEqual(await faultsOf(page, name, picture), [])
}
