/**
 * Outlives the worker that started it, to remove the worker's containers: a daemon keeps them running when their worker is
 * killed. Nothing in a container can reach it.
 *
 *     node Watchdog.main.ts SOCKET LABEL=VALUE
 *
 * Waits for the end of its standard input, which the kernel closes with the worker.
 */
import { Agent, request } from "node:http"

const [, , socketPath = "", label = ""] = process.argv

/** A container that the daemon was creating may appear after the first look. */
const LOOKS = 5
const PAUSE_MILLIS = 500

const agent = new Agent({ keepAlive: true })

const ask = (method: string, path: string) =>
  new Promise<string>((resolve, reject) => {
    const asked = request({ agent, socketPath, method, path, timeout: 30_000 }, (answer) => {
      let body = ""
      answer.setEncoding("utf8").on("data", (text: string) => (body += text)).on("end", () => resolve(body)).on("error", reject)
    })
    asked.on("timeout", () => asked.destroy()).on("error", reject).end()
  })

const ids = (answer: string): ReadonlyArray<string> => {
  const list: unknown = JSON.parse(answer)
  return Array.isArray(list)
    ? list.flatMap((container: { readonly Id?: unknown }) => typeof container.Id === "string" ? container.Id : [])
    : []
}

const removeAll = async () => {
  const filters = encodeURIComponent(JSON.stringify({ label: [label] }))
  const found = ids(await ask("GET", `/containers/json?all=1&filters=${filters}`))
  await Promise.all(found.map((id) => ask("DELETE", `/containers/${id}?force=1&v=1`)))
}

process.stdin.resume().once("end", () => {
  let looks = 0
  const again = () => {
    void removeAll().catch(() => {}).then(() => {
      if (++looks < LOOKS) setTimeout(again, PAUSE_MILLIS)
      else agent.destroy()
    })
  }
  again()
})
