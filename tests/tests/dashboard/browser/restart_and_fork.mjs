// An order is restarted as a new instance and in place, and forked from an event with another result; what the API refuses is shown.

import assert from 'node:assert/strict';
import { arrive, call, fulfil, instance, see, until } from './kit/actions.mjs';

const ID = `order-again-${Date.now()}`;

export default async function scenario(stage) {
  const { world } = stage;
  const state = (id) => call(world, 'GET', `/v1/instances/${id}`);
  // The bank declines: the order ends without parcels.
  const first = await fulfil(world, ID, { customer: 'declined' });
  assert.equal(first.status, 'Completed');
  const page = await stage.open(instance(ID));
  await arrive(page, ID);
  const posts = () => stage.requests.filter(({ method }) => method === 'POST').length;

  // As a new instance; an id that is in use is refused, and what was typed stays.
  await page.getByRole('button', { name: 'Restart…' }).click();
  const restart = page.getByRole('dialog', { name: 'Restart this instance?' });
  await restart.getByLabel('Id of the new instance').fill(ID);
  stage.expect(/status of 409/);
  await restart.getByRole('button', { name: 'Restart', exact: true }).click();
  await restart.getByRole('alert').waitFor();
  await restart.getByLabel('Id of the new instance').fill(`${ID}-2`);
  await restart.getByRole('button', { name: 'Restart', exact: true }).click();
  await arrive(page, `${ID}-2`);
  await page.locator('.inst-facts').getByRole('link', { name: ID, exact: true }).waitFor();

  // In place: another execution of the same instance.
  await page.goto(`${world.api}/${instance(ID)}`);
  await arrive(page, ID);
  await page.getByRole('button', { name: 'Restart…' }).click();
  await restart.getByLabel('As', { exact: true }).selectOption('same');
  assert.equal(await restart.getByLabel('Id of the new instance').isVisible(), false);
  await restart.getByRole('button', { name: 'Restart', exact: true }).click();
  await see(page, 'It was restarted.');
  await until('its second execution has ended', async () => {
    const now = await state(ID);
    return now.execution === 2 && now.status === 'Completed';
  });
  await page.getByRole('link', { name: 'Executions' }).waitFor();

  // A fork in which the bank says yes, from the event with its answer. The answer is that of another order.
  await fulfil(world, `${ID}-paid`, {});
  const answer = await charge(world, ID);
  const { result } = await charge(world, `${ID}-paid`);
  await page.goto(`${world.api}/${instance(ID, 'events')}?event=${answer.event_id}`);
  await page.getByRole('button', { name: 'Fork from here…' }).click();
  const fork = page.getByRole('dialog', { name: 'Fork this instance?' });
  const would = fork.getByText(`Events 1 to ${answer.event_id} would be taken over`);
  await would.waitFor();
  const before = posts();
  await fork.getByRole('button', { name: 'Change a result' }).click();
  const event = fork.getByLabel('Event that has the result');
  await event.fill('1');
  await fork.getByLabel('Its result in the fork').fill('{"no json');
  await fork.getByRole('button', { name: 'Fork', exact: true }).click();
  await fork.getByText(/^Not JSON/).waitFor();
  await fork.getByLabel('Its result in the fork').fill(result);
  // The first event has no result: the dry run says so.
  stage.expect(/status of 400/);
  await fork.locator('.preview').getByRole('alert').waitFor();
  await event.fill(String(answer.event_id));
  await event.press('Tab');
  await would.waitFor();
  assert.ok(posts() > before, 'each change has its dry run');
  await fork.getByRole('button', { name: 'Fork', exact: true }).click();
  await arrive(page, `${ID}-fork`);
  await page.locator('.inst-facts').getByText(`, event ${answer.event_id}`).waitFor();
  const forked = await state(`${ID}-fork`);
  assert.deepEqual([forked.forkedFrom.instance, forked.forkedFrom.event], [ID, answer.event_id]);
}

/** The event with the answer of the bank. */
async function charge(world, id) {
  const { events } = await call(world, 'GET', `/v1/instances/${id}/history?limit=1000`);
  const asked = events.find(({ type, name }) => type === 'ActivityScheduled' && name === 'charge-card');
  return events.find(({ source_event_id: source, type }) => source === asked.event_id && type === 'ActivityCompleted');
}
