# A team's own resources. A platform team has deployed the pipeline from ../deadletter.json: both
# know each other by names and ARNs alone.

variable "adopted" {
  description = "Whether the pipeline is deployed: it is, after the first apply and before the second"
  type        = bool
  default     = false
}

resource "aws_sqs_queue" "dead_orders" {
  name                      = "shop-orders-dlq"
  message_retention_seconds = 1209600
}

resource "aws_sqs_queue" "orders" {
  name = "shop-orders"
  # Six times the function's timeout, as AWS advises.
  visibility_timeout_seconds = 150
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_orders.arn
    maxReceiveCount     = 5
  })
}

resource "aws_iam_role" "ship" {
  name = "shop-ship"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "lambda.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy_attachment" "basic" {
  role       = aws_iam_role.ship.name
  policy_arn = "arn:aws:iam::aws:policy/service-role/AWSLambdaSQSQueueExecutionRole"
}

# The policy of the pipeline.
data "aws_ssm_parameter" "consumer" {
  count = var.adopted ? 1 : 0
  name  = "/deadletter/policies/orders/consumer"
}

resource "aws_iam_role_policy_attachment" "consumer" {
  count      = var.adopted ? 1 : 0
  role       = aws_iam_role.ship.name
  policy_arn = data.aws_ssm_parameter.consumer[0].value
}

resource "aws_lambda_function" "ship" {
  function_name = "shop-ship"
  role          = aws_iam_role.ship.arn
  runtime       = "python3.13"
  handler       = "ship.handler"
  # Packed as docs/consumer.md says.
  filename = "package.zip"
  timeout  = 25

  environment {
    variables = {
      DEADLETTER = var.adopted ? "deadletter/orders" : "off"
    }
  }

  depends_on = [aws_iam_role_policy_attachment.consumer]
}

resource "aws_lambda_event_source_mapping" "orders" {
  event_source_arn = aws_sqs_queue.orders.arn
  function_name    = aws_lambda_function.ship.arn
  batch_size       = 10
  # Without it, Lambda deletes what the library gives back.
  function_response_types = ["ReportBatchItemFailures"]

  depends_on = [aws_iam_role_policy_attachment.basic]
}

# For trusted_senders in deadletter.json: this is applied first.
output "trusted_sender" {
  value = aws_iam_role.ship.unique_id
}
