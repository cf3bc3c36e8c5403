/** Follows the feed until SIGTERM; with `--once`, processes what there is and ends. Settings come from the environment. */
import { makeFeed } from "./Feed.ts"
import { makeLedger } from "./Ledger.ts"
import { follow, recover } from "./Recovery.ts"
import { Bell, makeReceiver } from "./WakeUp.ts"

const log = (line: string) => void process.stderr.write(`${line}\n`)

const setting = (name: string): string => {
  const value = process.env[name]
  if (value !== undefined && value !== "") return value
  log(`${name} is not set`)
  process.exit(2)
}

const number = (name: string, fallback: number): number => {
  const value = Number(process.env[name] || fallback)
  if (Number.isFinite(value) && value >= 0) return value
  log(`${name} is no number`)
  process.exit(2)
}

const baseUrl = setting("SLIPWAY_URL")
const apiKey = setting("SLIPWAY_API_KEY")
const databaseUrl = setting("DATABASE_URL")
const pollMillis = number("POLL_SECONDS", 10) * 1000
const webhookPort = number("WEBHOOK_PORT", 0)
const webhookSecret = webhookPort === 0 ? null : setting("WEBHOOK_SECRET")

// A transaction that has begun is ended; requests and waiting are cut short.
const stop = new AbortController()
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort())

const ledger = await makeLedger(databaseUrl, log)
const bell = new Bell()
const receiver = webhookSecret === null ? null : makeReceiver(webhookSecret, bell).listen(webhookPort)
try {
  const readPage = makeFeed(baseUrl, apiKey, log)
  if (process.argv.includes("--once")) await recover(readPage, ledger, stop.signal)
  else await follow(readPage, ledger, bell, pollMillis, stop.signal)
} catch (error) {
  // The supervisor of this process starts it again: it goes on where the last transaction ended.
  if (!(stop.signal.aborted && error instanceof Error && error.name === "AbortError")) {
    log(`ended: ${String(error)}`)
    process.exitCode = 1
  }
} finally {
  receiver?.close()
  receiver?.closeAllConnections()
  await ledger.close()
}
