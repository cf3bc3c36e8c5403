import { run } from "./Receiver.ts"
import { toSlack } from "./Slack.ts"

const { SLACK_WEBHOOK_URL, SLIPWAY_URL = "http://localhost:8787" } = process.env
if (SLACK_WEBHOOK_URL === undefined) throw new Error("SLACK_WEBHOOK_URL is not set")
run(toSlack(SLACK_WEBHOOK_URL, SLIPWAY_URL))
