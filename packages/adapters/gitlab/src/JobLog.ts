/** The end of a job's log. However long the log is, only its end is kept, and no more than a bound is read. */
import { MAX_LOG_TAIL } from "@slipway/domain/source/ports/PullRequestFeedback"
import { RestFailed } from "@slipway/rest-host/RestApi"
import { Duration, Effect, Redacted } from "effect"

const TIMEOUT = Duration.seconds(20)
/** GitLab keeps 100 MiB of a log by default. */
const MAX_READ = 128 * 2 ** 20

/** The last bytes of the body; `null`: it is too long. */
const endOf = async ({ body }: Response): Promise<Buffer | null> => {
  const chunks: Array<Uint8Array> = []
  let kept = 0
  let read = 0
  for await (const chunk of body ?? []) {
    read += chunk.length
    // Leaving the loop cancels the rest.
    if (read > MAX_READ) return null
    chunks.push(chunk)
    kept += chunk.length
    while (kept - (chunks[0]?.length ?? 0) >= MAX_LOG_TAIL) kept -= chunks.shift()?.length ?? 0
  }
  return Buffer.concat(chunks).subarray(-MAX_LOG_TAIL)
}

/** The text of these bytes, which may begin inside a character, without colours and the marks of GitLab's foldable sections. */
const textOf = (bytes: Buffer): string => {
  let from = 0
  while (from < 3 && ((bytes[from] ?? 0) & 0xc0) === 0x80) from++
  return new TextDecoder().decode(bytes.subarray(from))
    .replaceAll(/section_(?:start|end):\d+:[\w.-]+(?:\[[^\]\r\n]*\])?\r/gu, "")
    // oxlint-disable-next-line no-control-regex
    .replaceAll(/\u001b\[[\d;]*[A-Za-z]/gu, "")
}

const follow = async (response: Response, signal: AbortSignal): Promise<Response> => {
  const location = response.status >= 300 && response.status < 400 ? response.headers.get("location") : null
  if (location === null) return response
  await response.body?.cancel()
  // A storage gets no credentials of GitLab. Its address is signed.
  return fetch(new URL(location, response.url), { headers: { range: `bytes=-${MAX_LOG_TAIL}` }, redirect: "error", signal })
}

/**
 * The log's last `MAX_LOG_TAIL` bytes as text; empty if the job has no log or the token may not read it. Fails if GitLab asks for a retry.
 */
export const jobLog = (url: URL, token: Redacted.Redacted): Effect.Effect<string, RestFailed> =>
  Effect.tryPromise(async (signal) => {
    const headers = { authorization: `Bearer ${Redacted.value(token)}`, "user-agent": "slipway" }
    const response = await follow(await fetch(url, { headers, redirect: "manual", signal }), signal)
    if (!response.ok) {
      await response.body?.cancel()
      return response.status
    }
    const end = await endOf(response)
    return end === null ? "" : textOf(end)
  }).pipe(
    Effect.timeout(TIMEOUT),
    Effect.orElseSucceed(() => ""),
    Effect.flatMap((found) =>
      typeof found === "string"
        ? Effect.succeed(found)
        : found === 429 || found >= 500
        ? Effect.fail(new RestFailed({ status: found, detail: `${url.host} answered with status ${found}.`, retryable: true }))
        : Effect.succeed("")
    )
  )
