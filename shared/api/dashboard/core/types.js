// The answers of the API, for the type checker. /v1/openapi.json describes each field.

/** @typedef {'Pending' | 'Running' | 'Blocked' | 'Paused' | 'Completed' | 'Failed' | 'Cancelled' | 'ContinuedAsNew'} Status */

/** @typedef {{cause: string, reason: string, build: string, since: string, tries: number, nextTry: string}} Blocked */

/**
 * @typedef {{
 *   instance: string, orchestration: string, version?: string, status: Status, customStatus?: string,
 *   customStatusVersion: number, input?: any, output?: any, error?: string, blocked?: Blocked, paused?: {since: string, reason?: string}, execution: number,
 *   events: number, createdAt: string, updatedAt: string, startedAt?: string, completedAt?: string, durationMs?: number,
 *   parent?: string, tags: Record<string, string>, attention?: string[], explanation?: string,
 *   usage?: Usage, restartedFrom?: string, forkedFrom?: {instance: string, execution: number, event: number, at: string},
 *   rewinds?: Rewind[],
 * }} Instance
 */

/**
 * @typedef {{
 *   turns: number, activities: number, attempts: number, wakeups: number, requests: number, requestUnits: number, bytesRead: number,
 *   bytesWritten: number, turnSeconds: number, activitySeconds: number, elapsedSeconds: number, waitingSeconds: number,
 * }} Usage
 */

/** @typedef {{kind: string, event: number, name: string, failures: number}} Step */

/**
 * @typedef {{
 *   instance: string, dryRun: boolean, execution: number, before: number, kept: number, undone: number, delivered: Step[], activities: Step[],
 *   timers: Step[], children: Step[], reused: Step[], keptFailures: Step[],
 * }} Rewound
 */

/** @typedef {{instance: string, execution: number, at: number, delivered: Step[], activities: Step[], timers: Step[], children: Step[], reused: Step[]}} Forked */

/** @typedef {{number: number, at: string, reason?: string, execution: number, before: number, undone: number, error?: string, cancelled: boolean}} Rewind */

/** @typedef {{instances: Instance[], nextCursor?: string, truncated?: boolean}} InstanceList */

/**
 * @typedef {{
 *   kind: 'activity' | 'event' | 'queue' | 'timer' | 'child', cause: string, id: number, name?: string, instance?: string, text: string,
 *   needsAttention: boolean, since?: string, due?: string,
 * }} Wait
 */

/**
 * @typedef {{
 *   instance: string, status: Status, at: string, sentence: string, cause: string, needsAttention: boolean, since?: string, until?: string,
 *   waits: Wait[], moreWaits: number, evidence: {what: string, value: string, at?: string}[], next: {text: string, command?: string}[],
 *   chain: {instance: string, orchestration: string, status?: Status, cause: string, sentence: string}[],
 * }} Explanation
 */

/**
 * An event as duroxide records it: common fields, `type`, and the fields of that type.
 * @typedef {{event_id: number, source_event_id: number | null, timestamp_ms: number, type: string, [field: string]: any}} HistoryEvent
 */

/** @typedef {{number: number, beganAt: string, endedAt: string, end: string}} EndedAttempt */

/**
 * @typedef {{
 *   activity: number, open: boolean, name?: string, attempts: number, runningSince?: string, ended: EndedAttempt[],
 *   blocked?: Blocked,
 * }} ActivityAttempts
 */

/**
 * @typedef {{
 *   instance: string, execution: number, events: HistoryEvent[], attempts: ActivityAttempts[], nextAfter?: number, rewinds?: number, undone?: Rewind,
 * }} History
 */

/** @typedef {{execution: number, status: Status, events: number, startedAt: string, completedAt?: string}} Execution */
/** @typedef {{executions: Execution[], nextAfter?: number}} ExecutionList */
/** @typedef {{root: string, instances: Instance[], nextAfter?: string}} Tree */
/** @typedef {{values: {key: string, value: string}[], nextAfter?: string}} KeyValueList */
/** @typedef {{total: number, counts: {name: string, status: Status, count: number}[]}} Counts */

/**
 * @typedef {{
 *   at: string, counts: {status: Status, count: number}[], recentSince: string, startedRecently: number,
 *   endedRecently: number, failedRecently: number, blocked: number, paused: number, stuck: number, overdueTimers: number, messagesDue: number,
 *   activitiesDue: number, timersPending: number, oldestDueAt?: string, outbox: number, deadLetters: number,
 * }} Overview
 */

/** @typedef {{at: string, hours: {from: string, started: number, ended: number, failed: number}[]}} Throughput */

/**
 * @typedef {{at: string, overdue: {instance: string, kind: 'message' | 'activity' | 'timer', name?: string, dueAt: string}[]}} Overdue
 */

/**
 * @typedef {{
 *   instance: string, id: string, kind: string, reason: string, attempts: number, givenUpAt: string, execution?: number,
 *   name?: string, target?: string,
 * }} DeadLetterSummary
 */

/** @typedef {{deadLetters: DeadLetterSummary[], nextCursor?: string}} DeadLetterList */
/** @typedef {DeadLetterSummary & {items: any[], omitted: number}} DeadLetter */

/** @typedef {'pause' | 'resume' | 'cancel' | 'rewind' | 'restart' | 'raise' | 'delete'} BatchVerb */
/** @typedef {{tags?: Record<string, string>, all?: boolean, [condition: string]: any}} BatchFilter */
/** @typedef {{filter: BatchFilter, action: BatchVerb, rate?: number, dryRun?: boolean, [field: string]: any}} BatchRequest */

/**
 * @typedef {{
 *   batch: string, state: 'Running' | 'Cancelling' | 'Completed' | 'Cancelled' | 'Failed', action: BatchVerb, filter: BatchFilter, dryRun: boolean,
 *   rate: number, slowed: boolean, by?: string, createdAt: string, updatedAt: string, endedAt?: string, byStatus: Record<string, number>,
 *   counts: {examined: number, changed: number, unchanged: number, gone: number, failed: number},
 *   sample: {instance: string, status: string}[], error?: string,
 * }} Batch
 */

/** @typedef {{batches: Batch[], nextCursor?: string}} BatchList */
/** @typedef {{failures: {instance: string, reason: string}[], nextCursor?: string}} BatchFailureList */
/** @typedef {'reader' | 'client' | 'operator'} Role */
/** @typedef {{who: string, role: Role}} Me */

/**
 * @typedef {{
 *   issuer: string, clientId: string, scope: string, authorizationEndpoint: string, tokenEndpoint: string,
 *   endSessionEndpoint?: string,
 * }} SignIn
 */

/** @typedef {{auth: 'iam' | 'jwt' | 'none', version: string, signIn?: SignIn}} Config */

export {};
