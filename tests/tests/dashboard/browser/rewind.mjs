// A failed order is rewound from its page, on the real functions: the question shows what would happen, the page follows the new history, and
// what the order has used is shown.

import assert from 'node:assert/strict';
import { arrive, call, fulfil, instance, see, until } from './kit/actions.mjs';

const ID = `order-to-rewind-${Date.now()}`;

export default async function scenario(stage) {
  const failed = await fulfil(stage.world, ID, { customer: 'unrefundable', retry_delay_ms: 10, parcels: [{ address: '12 Mill Lane' }, { address: 'nowhere' }] });
  assert.equal(failed.status, 'Failed');
  const page = await stage.open(instance(ID, 'events'));
  await arrive(page, ID);
  const { usage } = await call(stage.world, 'GET', `/v1/instances/${ID}`);
  await page.getByText('What it has used').click();
  const fact = (name) => page.locator('.inst-output dl div').filter({ has: page.getByText(name, { exact: true }) }).locator('dd').innerText();
  assert.equal(await fact('Turns'), String(usage.turns));
  assert.match(await fact('Activities'), new RegExp(`^${usage.activities}\\b`));
  assert.ok(Number((await fact('Request units')).replaceAll(',', '')) > 0);
  const posts = () => stage.requests.filter(({ method }) => method === 'POST').length;

  await page.getByRole('button', { name: 'Rewind…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Rewind this instance?' });
  const preview = dialog.locator('.preview');
  const undone = /(\d+) events? from event (\d+) on would be undone, (\d+) events? kept\./;
  await preview.getByText(undone).waitFor();
  const [, count, before, kept] = undone.exec(await preview.innerText());
  assert.equal(Number(kept), Number(before) - 1);
  await preview.getByText('refund-card').first().waitFor();
  await dialog.getByLabel(/Run activities again/).check();
  await until('there was another dry run', () => posts() === 2);
  assert.equal((await call(stage.world, 'GET', `/v1/instances/${ID}`)).rewinds, undefined, 'nothing but dry runs yet');
  await dialog.getByLabel(/Run activities again/).uncheck();
  await dialog.getByLabel('Reason').fill('the bank is back');
  await dialog.getByRole('button', { name: 'Rewind', exact: true }).click();
  await see(page, `Rewound: ${count} event`);

  // It fails again, because the bank takes no refunds. What is shown is the new history.
  await see(page, `to before event ${before}: the bank is back`);
  const state = await until('it has failed again', async () => {
    const now = await call(stage.world, 'GET', `/v1/instances/${ID}`);
    return now.status === 'Failed' && now.rewinds?.length === 1 && now;
  });
  assert.equal(state.rewinds[0].undone, Number(count));
  await until('all events of the new history are shown', async () => (await page.locator('.ev-controls').innerText()).includes(`of ${state.events} events`));
  const { events } = await call(stage.world, 'GET', `/v1/instances/${ID}/history?limit=1000`);
  const last = page.locator(`#event-${events.at(-1).event_id}`);
  assert.match(await last.innerText(), /failed/i);
  const times = await page.locator('.ev-row time').evaluateAll((all) => all.map((one) => Date.parse(one.dateTime)));
  assert.ok(times.every((at, index) => index === 0 || at >= times[index - 1]), 'no event of the old history is among them');
  assert.equal(times.at(-1), events.at(-1).timestamp_ms);

  // What was undone can be read, marked as such.
  await page.getByLabel('Which events').selectOption({ index: 1 });
  await see(page, `${count} events undone by rewind 1`);
  const old = page.getByRole('table', { name: 'Undone events' });
  await old.waitFor();
  const { events: undoneEvents } = await call(stage.world, 'GET', `/v1/instances/${ID}/history?undone=1`);
  await page.getByLabel('Hide noise').uncheck();
  await until('all of them are shown', async () => (await old.locator('.ev-row').count()) === undoneEvents.length);
  assert.equal(undoneEvents.length, Number(count));
  assert.match(await old.locator('.ev-row td').nth(2).evaluate((cell) => getComputedStyle(cell).textDecoration), /line-through/);
  await page.reload();
  await see(page, `${count} events undone by rewind 1`);
  await page.getByRole('button', { name: 'Back to the history' }).click();
  await page.getByRole('table', { name: 'Events', exact: true }).waitFor();
}
