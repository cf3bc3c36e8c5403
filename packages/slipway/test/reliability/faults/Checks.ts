/** Conditions that must hold after each fault: every function returns the violations. */
import { readdirSync, readFileSync } from "node:fs"
import path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import type { Rows } from "../../../testing/Readers.ts"
import type { Process } from "../../../testing/ServiceCluster.ts"
import * as Load from "./Load.ts"

const API = "/api/public/v1/sandboxes"

/** Each key has the one sandbox that was acknowledged for it, as the database has it. */
export const stored = async (rows: Rows, { created, terminated }: Pick<Load.Load, "created" | "terminated">): Promise<Array<string>> => {
  const found = new Map<string, Array<{ readonly id: string; readonly status: string }>>()
  for (const { id, status, title } of await rows("SELECT id, status, title FROM sandboxes")) {
    found.set(String(title), [...found.get(String(title)) ?? [], { id: String(id), status: String(status) }])
  }
  return Array.from(created).flatMap(([title, id]) => {
    const [one, ...more] = found.get(title) ?? []
    if (one === undefined) return [`${title} was acknowledged as ${id}, and is lost`]
    if (more.length > 0) return [`${title} was created ${1 + more.length} times`]
    if (one.id !== id) return [`${title} was acknowledged as ${id}, and is ${one.id}`]
    return terminated.has(id) && !["terminating", "terminated"].includes(one.status) ? [`the end of ${title} is lost: ${one.status}`] : []
  })
}

/** A service that lived through a fault is well again by then. */
const WELL_MILLIS = 5_000

/** Retries, like a client that gets 503, until the service has to be well. */
const askAgain = async (wrong: Array<string>, url: string, key: string, address: string): Promise<Load.Reply> => {
  for (const began = performance.now();;) {
    const reply = await Load.ask(wrong, url, key, address)
    if (reply.status !== 503 || performance.now() - began > WELL_MILLIS) return reply
    await sleep(200)
  }
}

/** Every acknowledged sandbox is found, and has a log that counts from 1. At most `most` of them, evenly chosen. */
export const answered = async (
  urls: ReadonlyArray<string>,
  key: string,
  { created }: Pick<Load.Load, "created">,
  most = 100
): Promise<Array<string>> => {
  const wrong: Array<string> = []
  const ids = [...created.values()]
  const step = Math.max(1, Math.floor(ids.length / most))
  const chosen = ids.filter((_, i) => i % step === 0)
  const next = chosen.values()
  const look = async () => {
    for (const id of next) {
      const url = urls[Math.floor(Math.random() * urls.length)] ?? ""
      const { status } = await askAgain(wrong, url, key, `${API}/${id}`)
      if (status !== 200) wrong.push(`${id} was acknowledged, and is answered with ${status}`)
      const events = await askAgain(wrong, url, key, `${API}/${id}/events?limit=100`)
      if (events.status !== 200) wrong.push(`the log of ${id} is answered with ${events.status}`)
      const { data = [] } = JSON.parse(events.text || "{}") as { readonly data?: ReadonlyArray<{ readonly id: string }> }
      if (data.length === 0 || data.some((event, i) => Number(event.id) !== i + 1)) {
        wrong.push(`the log of ${id}: ${data.map((event) => event.id).join(" ")}`)
      }
    }
  }
  await Promise.all([look(), look(), look(), look()])
  return wrong
}

/** Processes that ended, or did not start, without being asked to. */
export const ended = (processes: ReadonlyArray<Process>): Array<string> =>
  processes.flatMap(({ ends, name }) => ends.map((how) => `${name} ended by itself: ${how}`))

/** Logs below the folder that have one of the secrets, by what it is called. */
export const leaks = (folder: string, secrets: Readonly<Record<string, string>>): Array<string> =>
  readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".log")).flatMap((name) => {
    const text = readFileSync(path.join(folder, name), "utf8")
    return Object.entries(secrets).filter(([, secret]) => text.includes(secret)).map(([what]) => `${name} has ${what}`)
  })

const PATIENCE_MILLIS = 60_000

/** Milliseconds until every address says that it is ready, from now on. */
export const back = async (urls: ReadonlyArray<string>): Promise<number> => {
  const began = performance.now()
  const ignored: Array<string> = []
  await Promise.all(urls.map(async (url) => {
    while ((await Load.ask(ignored, url, "", "/readyz")).status !== 200 && performance.now() - began < PATIENCE_MILLIS) await sleep(50)
  }))
  return performance.now() - began
}
