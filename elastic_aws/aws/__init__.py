"""The only door to AWS: boto3 and botocore are imported nowhere else."""
